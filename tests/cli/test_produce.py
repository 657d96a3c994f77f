"""`headrace produce` on a real broker: every kind of input arrives to the byte, and failures count what arrived."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headrace.cli import exits
from headrace.cli.record_values import Base64, RecordRow
from headrace.cli.sending import Delivered, Summary
from tests.cli.running import Ended, Run


def kept(cli: Run, topic: str) -> list[RecordRow]:
    return cli("consume", topic, "-o", "jsonl").lines(RecordRow)


def values(cli: Run, topic: str) -> list[object]:
    return [row.value for row in kept(cli, topic)]


def refused(ended: Ended, code: int, *words: str) -> None:
    assert ended.code == code, ended
    assert "Traceback" not in ended.err
    for word in words:
        assert word in ended.err


def test_arguments_are_records_and_the_words_say_where_they_are(cli: Run) -> None:
    assert cli("produce", "p-args", "one").out == "Sent 1 record to p-args, partition 0, offset 0.\n"
    assert cli("produce", "p-args", "two", "three").out == "Sent 2 records to p-args, partition 0, offsets 1 to 2.\n"
    assert values(cli, "p-args") == ["one", "two", "three"]


def test_json_sums_up_and_json_lines_have_each_record(cli: Run) -> None:
    summary = cli("produce", "p-json", "a", "bc", "-o", "json").row(Summary)
    assert (summary.topic, summary.records, summary.bytes) == ("p-json", 2, 3)
    assert [(p.partition, p.first_offset, p.last_offset) for p in summary.partitions] == [(0, 0, 1)]
    lines = cli("produce", "p-json", "d", "e", "-o", "jsonl").lines(Delivered)
    assert [(line.partition, line.offset) for line in lines] == [(0, 2), (0, 3)]
    csv = cli("produce", "p-json", "f", "-o", "csv").out.splitlines()
    assert csv[0] == "topic,partition,offset,timestamp_ms"
    assert csv[1].startswith("p-json,0,4,")
    assert "p-json partition 0 offset 5" in cli("produce", "p-json", "g", "-v").out
    assert cli("produce", "p-json", "h", "-q").out == ""


def test_lines_of_standard_input_are_records(cli: Run) -> None:
    assert cli("produce", "p-lines", stdin="one\n\nthree\nno end").code == 0
    assert values(cli, "p-lines") == ["one", "", "three", "no end"]


def test_a_long_input_arrives_whole_and_in_order(cli: Run) -> None:
    lines = [f"{number:09d}" for number in range(100_000)]
    summary = cli("produce", "p-long", "-z", "lz4", "-o", "json", stdin="\n".join(lines)).row(Summary)
    assert summary.records == 100_000
    assert cli("consume", "p-long").out.splitlines() == lines


def test_delimiters_cut_keys_from_values_and_records_from_each_other(cli: Run) -> None:
    cli("produce", "p-cut", "-D", r"\0", "-K", "::", stdin=b"k1::v1\0k2::v::2\0no key\0")
    assert [(row.key, row.value) for row in kept(cli, "p-cut")] == [("k1", "v1"), ("k2", "v::2"), (None, "no key")]


def test_keys_headers_partition_time_and_null_are_kept(cli: Run) -> None:
    cli("topic", "create", "p-all", "-p", "3", "-c", "retention.ms=-1")
    line = ["-k", "key", "-H", "a=1", "-H", "a=2", "-H", "b=", "-P", "2", "--timestamp", "@1700000000", "-Z"]
    assert cli("produce", "p-all", *line, "v", "").code == 0
    first, second = kept(cli, "p-all")
    assert (first.key, first.value, first.partition, first.timestamp_ms) == ("key", "v", 2, 1_700_000_000_000)
    assert [(header.name, header.value) for header in first.headers] == [("a", "1"), ("a", "2"), ("b", "")]
    assert second.value is None


def test_json_lines_bring_key_headers_partition_and_time(cli: Run) -> None:
    cli("topic", "create", "p-jsonl", "-p", "2", "-c", "retention.ms=-1")
    lines = (
        '{"key": "k", "value": "v", "headers": {"h": "x"}, "partition": 1, "timestamp_ms": 1700000000000}\n'
        "\n"
        '{"value": {"base64": "/wA="}, "headers": [{"name": "n", "value": null}], "partition": 1}\n'
        '{"value": null, "key": {"a": 1}, "partition": 1}\n'
    )
    assert cli("produce", "p-jsonl", "--format", "jsonl", stdin=lines).code == 0
    first, second, third = kept(cli, "p-jsonl")
    assert (first.key, first.value, first.partition, first.timestamp_ms) == ("k", "v", 1, 1_700_000_000_000)
    assert (second.value, second.headers[0].value) == (Base64("/wA="), None)
    assert (third.value, third.key) == (None, '{"a":1}')


def test_what_consume_prints_goes_into_another_topic_to_the_byte(cli: Run) -> None:
    cli("produce", "p-from", "-K", "=", stdin=b"k=v\n\xff=\x00\xfe\n=\nplain\n")
    printed = cli("consume", "p-from", "-o", "jsonl").out
    cli("produce", "p-to", "--format", "jsonl", stdin=printed)
    same = [(row.key, row.value, row.headers, row.timestamp_ms) for row in kept(cli, "p-from")]
    assert [(row.key, row.value, row.headers, row.timestamp_ms) for row in kept(cli, "p-to")] == same


def test_files_are_read_in_order_and_whole_ones_are_one_record(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n")
    (tmp_path / "b").write_bytes(b"\xff\n")
    cli("produce", "p-files", "-f", str(tmp_path / "a"), "-f", "-", stdin="3\n")
    assert values(cli, "p-files") == ["1", "2", "3"]
    cli("produce", "p-whole", "--format", "whole", "-f", str(tmp_path / "a"), "-f", str(tmp_path / "b"))
    assert values(cli, "p-whole") == ["1\n2\n", Base64("/wo=")]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_compression_and_every_level_of_acknowledgement(cli: Run, codec: str, acks: str) -> None:
    topic = f"p-{codec}-{acks}"
    cli("topic", "create", topic)
    assert cli("produce", topic, "--acks", acks, "-z", codec, "value").code == 0
    deadline = time.monotonic() + 10
    while not (found := values(cli, topic)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found == ["value"]


def test_a_topic_that_is_new_is_told_with_the_nearest_name(cli: Run) -> None:
    first = cli("produce", "p-orders", "x")
    assert "no topic p-orders yet" in first.err
    assert "did you mean p-orders?" in cli("produce", "p-odrers", "x").err
    assert cli("produce", "p-orders", "x").err == ""
    assert cli("produce", "p-new", "x", "-q").err == ""


def test_the_rate_is_held(cli: Run) -> None:
    begin = time.monotonic()
    assert cli("produce", "p-rate", "--rate", "50", *("x" * 26)).code == 0
    assert 0.45 < time.monotonic() - begin < 5


def test_wrong_options_are_refused_before_anything_is_sent(cli: Run, tmp_path: Path) -> None:
    refused(cli("produce", "p-no", "v", "--acks", "2"), exits.USAGE, "one of 0, 1, all")
    refused(cli("produce", "p-no", "v", "-z", "zip"), exits.USAGE, "did you mean gzip?")
    refused(cli("produce", "p-no", "v", "--format", "json"), exits.USAGE, "did you mean jsonl?")
    refused(cli("produce", "p-no", "v", "-H", "noequals"), exits.USAGE, "NAME=VALUE")
    refused(cli("produce", "p-no", "v", "--rate", "0"), exits.USAGE, "--rate")
    refused(cli("produce", "p-no", "v", "-f", "x"), exits.USAGE, "not from both")
    refused(cli("produce", "p-no", "-f", str(tmp_path / "none")), exits.STORAGE, str(tmp_path / "none"))
    refused(cli("topic", "describe", "p-no"), exits.NOT_FOUND)


def test_a_failure_in_the_middle_says_how_many_arrived(cli: Run) -> None:
    cli("topic", "create", "p-fail", "-c", "max.message.bytes=1000")
    ended = cli("produce", "p-fail", "--format", "jsonl", stdin='{"value": "fine"}\n{"value": 1\n')
    refused(ended, exits.USAGE, "line 2", "1 record acknowledged, and then:")
    refused(cli("produce", "p-fail", "x" * 5000), exits.REFUSED, "max.message.bytes")
    refused(cli("produce", "p-fail", "v", "-P", "5", "--timeout", "3s"), exits.NOT_FOUND)
    assert values(cli, "p-fail") == ["fine"]


def test_a_record_without_an_end_is_refused_and_not_gathered_for_ever(
    cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cli.reading.MAX_RECORD_BYTES", 1 << 20)
    refused(cli("produce", "p-endless", stdin=b"x" * (4 << 20)), exits.USAGE, "no delimiter", "-D")


def test_a_partition_that_the_topic_does_not_have_is_told_with_where_to_look(cli: Run, name: str) -> None:
    cli("topic", "create", name, "--partitions", "2")
    ended = cli("produce", name, "x", "--partition", "9")
    assert ended.code == exits.NOT_FOUND
    assert ended.err.splitlines() == [
        f"headrace: topic '{name}' has partitions 0 to 1, not 9",
        "  try: `headrace topic describe TOPIC` shows its partitions",
    ]
