"""Options that make no sense are refused in a sentence; those of Spark's Kafka source mean what they mean there."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.spark.errors import InvalidOption, JavaMissing
from headrace.spark.java import check_java
from headrace.spark.options import Bound, SourceOptions, duration_s, source_options
from headrace.spark.sink_options import sink_options

GIVEN = {"servers": "h:1", "subscribe": "a"}


def options(is_stream: bool = False, **given: str) -> SourceOptions:
    return source_options({**GIVEN, **given}, is_stream=is_stream)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"servers": ""}, "name the broker"),
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
        ({"timeout": "soon"}, "timeout is a time such as 30s, not 'soon'"),
        ({"kafka.security.protocol": "SSL"}, "connections are plain text here"),
        ({"includeHeader": "true"}, "there is no option includeheader; did you mean includeHeaders?"),
        ({"xyzzy": "1"}, "there is no option xyzzy; there are servers,"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        options(**given)
    assert words in str(refused.value)


@pytest.mark.parametrize("batch", ["-1", str(1 << 63), "first"])
def test_a_batch_that_no_ledger_can_hold_is_refused_before_anything_is_written(batch: str) -> None:
    """Below 0 every batch is done for it: the rows would be taken, and be nowhere."""
    with pytest.raises(InvalidOption, match="batchId is a whole number"):
        sink_options({"servers": "h:1", "topic": "a", "writeId": "w", "batchId": batch})


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
