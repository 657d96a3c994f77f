"""Options that make no sense are refused in a sentence; those of Spark's Kafka source mean what they mean there."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.spark.errors import InvalidOption, JavaMissing
from headrace.spark.java import check_java
from headrace.spark.options import Bound, SourceOptions, duration_s, source_options
from headrace.spark.sink_options import SinkOptions, sink_options

GIVEN = {"servers": "h:1", "subscribe": "a"}


def options(is_stream: bool = False, **given: str) -> SourceOptions:
    return source_options({**GIVEN, **given}, is_stream=is_stream)


def sink(is_stream: bool = False, **given: str) -> SinkOptions:
    return sink_options({"servers": "h:1", "topic": "a", **given}, is_stream=is_stream)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"servers": ""}, "name the broker"),
        ({"servers": "http://x:1"}, "servers: 'http://x:1': leave out http://, and name the port of the Kafka door"),
        ({"servers": "x:y"}, "servers: 'x:y' is not an address: give HOST:PORT"),
        ({"servers": "x:99999"}, "servers: 'x:99999' is not an address: give HOST:PORT"),
        ({"servers": ":9092"}, "servers: ':9092' is not an address: give HOST:PORT"),
        ({"servers": "h:1,[::1"}, "servers: '[::1' is not an address: give HOST:PORT"),
        ({"servers": " , "}, "servers: no server was named: give HOST:PORT"),
        (
            {"assign": '{"a": [0]}'},
            "say once what is read, by subscribe, subscribePattern or assign; given was subscribe and",
        ),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"startingOffsets": "newest"}, "startingOffsets is earliest, latest or JSON such as"),
        ({"startingOffsets": '{"a": {"0": "x"}}'}, "startingOffsets is earliest, latest or JSON such as"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "offsets are 0 or more, -1 for the latest or -2"),
        ({"startingOffsets": "latest"}, "a batch cannot start at the latest offsets"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be the earliest"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is true or false, not 'maybe'"),
        ({"minPartitions": "0"}, "minPartitions is a whole number above 0, not 0"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger is a whole number above 0, not 'many'"),
        ({"isolation": "serializable"}, "isolation is read_committed or read_uncommitted"),
        ({"startingTimestamp": "-5"}, "startingTimestamp is milliseconds since 1970"),
        (
            {"startingTimestamp": str(1 << 70)},
            f"startingTimestamp is milliseconds since 1970, up to {(1 << 63) - 1}, not",
        ),
        ({"endingTimestamp": str(1 << 63)}, f"endingTimestamp is milliseconds since 1970, up to {(1 << 63) - 1}, not"),
        (
            {"startingOffsetsByTimestamp": f'{{"a": {{"0": {1 << 70}}}}}'},
            "startingOffsetsByTimestamp is JSON such as {",
        ),
        ({"startingOffsets": f'{{"a": {{"0": {1 << 70}}}}}'}, "startingOffsets is earliest, latest or JSON such as"),
        ({"prefetchBytes": str(1 << 70)}, f"prefetchBytes is at most {(1 << 31) - 1}, not {1 << 70}"),
        ({"maxOffsetsPerTrigger": str(1 << 63)}, f"maxOffsetsPerTrigger is at most {(1 << 63) - 1}, not {1 << 63}"),
        ({"timeout": "soon"}, "timeout is a time such as 30s, not 'soon'"),
        ({"timeout": f"{'9' * 20}d"}, f"timeout is a time of 24 days at the most, not '{'9' * 20}d'"),
        ({"timeout": f"{'9' * 400}d"}, "timeout is a time of 24 days at the most"),
        ({"maxTriggerDelay": "25d"}, "maxTriggerDelay is a time of 24 days at the most, not '25d'"),
        ({"kafka.request.timeout.ms": str(1 << 70)}, "kafka.request.timeout.ms is at most 2073600000, not"),
        (
            {"startingOffsets": '{"a": {"0": 7, "1": 20}}', "endingOffsets": '{"a": {"0": 7, "1": 10}}'},
            "topic 'a' partition 1: the batch would start at 20 and end before that, at 10",
        ),
        (
            {"startingOffsetsByTimestamp": '{"a": {"0": 6}}', "endingOffsetsByTimestamp": '{"a": {"0": 5}}'},
            "topic 'a' partition 0: the batch would start at 6 and end before that, at 5",
        ),
        ({"startingTimestamp": "6", "endingTimestamp": "5"}, "startingTimestamp 6 is after endingTimestamp 5"),
        *(
            (
                {f"{kind}OffsetsByTimestamp": f'{{"a": {{"0": {time_ms}}}}}'},
                f"{kind}OffsetsByTimestamp is JSON such as {{",
            )
            for kind in ("starting", "ending")
            for time_ms in (-1, -2, -5)
        ),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets says where reading starts"),
        ({"startingOffsets": "[" * 100_000}, "startingOffsets is earliest, latest or JSON such as {"),
        ({"kafka.security.protocol": "SSL"}, "connections are plain text here"),
        ({"includeHeader": "true"}, "there is no option includeheader; did you mean includeHeaders?"),
        ({"xyzzy": "1"}, "there is no option xyzzy; there are servers,"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        options(**given)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 1_000, "a sentence"


@pytest.mark.parametrize("batch", ["-1", str(1 << 63), "first"])
def test_a_batch_that_no_ledger_can_hold_is_refused_before_anything_is_written(batch: str) -> None:
    """Below 0 every batch is done for it: the rows would be taken, and be nowhere."""
    with pytest.raises(InvalidOption, match="batchId is a whole number"):
        sink(writeId="w", batchId=batch)


def test_a_number_without_the_id_of_its_write_is_refused() -> None:
    """It would be in a ledger of its own each time, and a repetition written twice."""
    with pytest.raises(InvalidOption, match="batchId does nothing without writeId: give both, or neither"):
        sink(batchId="7")
    assert sink(writeId="w").batch_id == 0


def test_an_id_is_refused_where_repeated_writes_are_written_again() -> None:
    with pytest.raises(InvalidOption, match="writeId does nothing with guarantee=at-least-once"):
        sink(writeId="w", guarantee="at-least-once")
    assert sink(writeId="w", guarantee="exactly-once").write_id == "w"


@pytest.mark.parametrize("name", ["writeId", "batchId"])
def test_a_stream_takes_no_id_or_number_beside_those_of_its_checkpoint(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"{name} is of batch writes: a stream's id and numbers are those of its"):
        sink(is_stream=True, **{name: "7"})


@pytest.mark.parametrize("name", ["value.schema", "value.message", "value.raw"])
def test_how_values_are_decoded_is_not_said_without_their_format(name: str) -> None:
    """They would stay bytes, which whoever says so does not expect."""
    with pytest.raises(InvalidOption, match=f"{name} does nothing without value.format"):
        options(**{name: "all"})


def test_a_sink_takes_the_words_of_sparks_own_for_headers() -> None:
    """They are written where the column is there."""
    assert sink(includeHeaders="true") == sink(includeHeaders="false") == sink()
    with pytest.raises(InvalidOption, match="includeHeaders is true or false, not 'perhaps'"):
        sink(includeHeaders="perhaps")


def test_how_rows_are_encoded_is_not_said_without_their_format() -> None:
    with pytest.raises(InvalidOption, match=r"value.schema does nothing without value.format"):
        sink(**{"value.schema": "{}"})


def test_the_largest_that_there_are_are_taken() -> None:
    last = (1 << 63) - 1
    given = {"startingTimestamp": str(last), "prefetchBytes": str((1 << 31) - 1), "timeout": "24d"}
    found = options(**given, minPartitions=str(last))
    assert found.start == Bound(time_ms=last) and found.prefetch_bytes == (1 << 31) - 1
    assert (found.timeout, found.min_partitions) == (24 * 86_400, last)
    assert options(startingOffsets='{"a": {"0": 9}}', endingOffsets='{"a": {"0": -1}}').end is not None


def test_a_stream_has_no_end() -> None:
    with pytest.raises(InvalidOption, match="a stream has no end"):
        options(is_stream=True, endingOffsets="latest")


def test_names_are_taken_whatever_their_case_and_kafkas_own_settings_do_no_harm() -> None:
    found = options(STARTINGOFFSETS="earliest", **{"kafka.fetch.max.bytes": "1", "kafka.group.id": "g"})
    assert (found.start, found.group, found.isolation) == (Bound(word="earliest"), "g", "read_committed")
    assert options(**{"kafka.request.timeout.ms": "1500"}).timeout == 1.5


def test_times_come_before_offsets_as_in_sparks_source() -> None:
    found = options(startingTimestamp="5", startingOffsetsByTimestamp='{"a": {"0": 1}}', startingOffsets="earliest")
    assert found.start == Bound(time_ms=5)
    found = options(startingOffsetsByTimestamp='{"a": {"0": 1}}', startingOffsets="earliest")
    assert found.start == Bound(times_ms={"a": {0: 1}})


def test_offsets_that_the_source_wrote_itself_may_be_given_back() -> None:
    found = options(startingOffsets='{"": {"ids": {"a": "x"}}, "a": {"0": 7}}')
    assert found.start == Bound(offsets={"a": {0: 7}})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("15m", 900), ("15min", 900), ("2h", 7200), ("1d", 86_400), ("500ms", 0.5), ("1.5", 1.5), ("5 S", 5)],
)
def test_times_are_said_with_their_unit(text: str, seconds: float) -> None:
    assert duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(("text", "seconds"), [("1000", 1), ("15min", 900), ("1d", 86_400), ("15m", 900), ("20S", 20)])
def test_a_delay_is_read_as_spark_reads_it(text: str, seconds: float) -> None:
    assert options(is_stream=True, maxTriggerDelay=text).max_delay_s == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "0s", "-1s", "5 weeks", "s", "1e3"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="maxTriggerDelay is a time such as 15m"):
        options(is_stream=True, maxTriggerDelay=text)


@pytest.mark.parametrize("word", ["LATEST", "Latest", "latest"])
def test_a_strategy_is_taken_whatever_its_case(word: str) -> None:
    given = {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": word}
    assert options(**given).is_late_start_latest


def test_a_missing_java_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match=r"needs Java 17 or newer, and there is no `java` on the PATH; install it \("):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="there is no bin/java in it"):
        check_java()
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin" / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    with pytest.raises(JavaMissing, match="is version 11"):
        check_java()
