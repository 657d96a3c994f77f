"""`headrace consume` and `headrace tail` on a real broker: positions, formats, filters, counts, following."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
import yaml
from confluent_kafka import Producer

from headrace.cli import exits, last_records
from headrace.cli.record_values import RecordRow
from tests.cli.running import Ended, Run
from tests.client.marks import wait_until_marked

LIMIT_S = 30.0


@pytest.fixture(scope="module")
def filled(server: str) -> Iterator[str]:
    """A topic of two partitions: 0 has v0 to v9 with keys, an hour apart from each other; 1 has w0 to w4."""
    run = Run(server)
    run("topic", "create", "filled", "-p", "2")
    for number in range(10):
        stamp = f"@{1_700_000_000 + 3600 * number}"
        run("produce", "filled", "-P", "0", "-k", f"k{number}", "-H", f"n={number}", "--timestamp", stamp, f"v{number}")
    run("produce", "filled", "-P", "1", *(f"w{number}" for number in range(5)))
    yield "filled"


def refused(ended: Ended, code: int, *words: str) -> None:
    assert ended.code == code, ended
    assert "Traceback" not in ended.err
    for word in words:
        assert word in ended.err


def first(cli: Run, topic: str, *options: str) -> list[str]:
    """Values of partition 0."""
    ended = cli("consume", topic, "-P", "0", *options)
    assert ended.code == 0, ended.err
    return ended.out.splitlines()


def test_without_options_all_values_come_and_then_it_ends(cli: Run, filled: str) -> None:
    assert sorted(cli("consume", filled).out.split()) == [f"v{n}" for n in range(10)] + [f"w{n}" for n in range(5)]


@pytest.mark.parametrize(
    ("start", "end", "want"),
    [
        ("start", None, range(10)),
        ("end", None, range(0)),
        ("7", None, range(7, 10)),
        ("-2", None, range(8, 10)),
        ("-100", None, range(10)),
        ("@1700007200", None, range(2, 10)),
        ("@1700007201", None, range(3, 10)),
        ("@2023-11-14T22:13:20Z", None, range(10)),
        ("@-10m", None, range(0)),
        ("2", "5", range(2, 5)),
        ("start", "-8", range(2)),
        ("start", "@1700010800", range(3)),
        ("start", "end", range(10)),
        ("5", "5", range(0)),
    ],
)
def test_positions_are_exact(cli: Run, filled: str, start: str, end: str | None, want: range) -> None:
    assert first(cli, filled, "--start", start, *(["--end", end] if end else [])) == [f"v{n}" for n in want]


def test_a_count_ends_the_reading(cli: Run, filled: str) -> None:
    assert first(cli, filled, "-n", "3") == ["v0", "v1", "v2"]


def test_a_format_prints_what_it_names(cli: Run, filled: str) -> None:
    assert first(cli, filled, "-n", "2", "-f", r"%t/%p@%o %k=%s (%K,%S) %T %h\n") == [
        "filled/0@0 k0=v0 (2,2) 1700000000000 n=0",
        "filled/0@1 k1=v1 (2,2) 1700003600000 n=1",
    ]


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        (["key=k3"], [3]),
        (["value~[78]"], [7, 8]),
        (["header.n>=8"], [8, 9]),
        (["offset<3", "key!=k1"], [0, 2]),
        (["timestamp>1700030000000"], [9]),
    ],
)
def test_filters_keep_what_they_name(cli: Run, filled: str, conditions: list[str], want: list[int]) -> None:
    options = [part for condition in conditions for part in ("--filter", condition)]
    assert first(cli, filled, *options) == [f"v{n}" for n in want]


def test_json_lines_and_the_json_list_have_everything(cli: Run, filled: str) -> None:
    lines = cli("consume", filled, "-P", "0", "-n", "2", "-o", "jsonl").lines(RecordRow)
    assert [(row.topic, row.partition, row.offset, row.key, row.value) for row in lines] == [
        ("filled", 0, 0, "k0", "v0"),
        ("filled", 0, 1, "k1", "v1"),
    ]
    assert (lines[0].timestamp, lines[0].timestamp_type) == ("2023-11-14T22:13:20.000Z", "create")
    assert cli("consume", filled, "-P", "0", "-n", "2", "-o", "json").rows(RecordRow) == lines


def test_yaml_csv_and_the_table_have_the_same_records(cli: Run, filled: str) -> None:
    rows = yaml.safe_load(cli("consume", filled, "-P", "0", "-n", "2", "-o", "yaml").out)
    assert [row["value"] for row in rows] == ["v0", "v1"]
    lines = list(csv.DictReader(io.StringIO(cli("consume", filled, "-P", "0", "-n", "2", "-o", "csv").out)))
    assert [(line["key"], line["value"], line["offset"]) for line in lines] == [("k0", "v0", "0"), ("k1", "v1", "1")]
    table = cli("consume", filled, "-P", "0", "-n", "1", "-o", "table").out.splitlines()
    assert table[0].split() == ["PARTITION", "OFFSET", "TIMESTAMP", "KEY", "VALUE"]
    assert table[1].split() == ["0", "0", "2023-11-14T22:13:20.000Z", "k0", "v0"]
    wide = cli("consume", filled, "-P", "0", "-n", "1", "-o", "wide").out.splitlines()
    assert wide[0].split() == ["TOPIC", "PARTITION", "OFFSET", "TIMESTAMP", "KEY", "VALUE"]
    assert wide[1].split() == ["filled", "0", "0", "2023-11-14T22:13:20.000Z", "k0", "v0", "n=0"]
    assert wide[0].index("KEY") == wide[1].index("k0")


def test_nothing_to_read_is_said_and_is_valid_in_every_form(cli: Run) -> None:
    cli("topic", "create", "empty")
    ended = cli("consume", "empty")
    assert (ended.code, ended.out) == (0, "")
    assert "No records there" in ended.err
    assert cli("consume", "empty", "-o", "json").out == "[]\n"
    assert yaml.safe_load(cli("consume", "empty", "-o", "yaml").out) == []
    assert cli("consume", "empty", "-o", "jsonl").out == ""


def test_several_topics_come_by_name_and_by_pattern(cli: Run) -> None:
    cli("produce", "many-a", "a")
    cli("produce", "many-b", "b")
    assert sorted(cli("consume", "many-a", "many-b").out.split()) == ["a", "b"]
    assert sorted(cli("consume", "--regex", "many-.*").out.split()) == ["a", "b"]
    refused(cli("consume", "--regex", "none-.*"), exits.NOT_FOUND, "no topic matches")


def test_a_topic_that_is_not_there_is_not_made(cli: Run, filled: str) -> None:
    refused(cli("consume", "filed"), exits.NOT_FOUND, "did you mean filled?")
    refused(cli("tail", "filed"), exits.NOT_FOUND)
    refused(cli("topic", "describe", "filed"), exits.NOT_FOUND)


def test_what_makes_no_sense_is_refused(cli: Run, filled: str) -> None:
    refused(cli("consume", filled, "--start", "yesterday"), exits.USAGE, "position")
    refused(cli("consume", filled, "-P", "7"), exits.NOT_FOUND, "no partition 7")
    refused(cli("consume", filled, "-f", "%q"), exits.USAGE, "%q")
    refused(cli("consume", filled, "-f", "%s", "-o", "json"), exits.USAGE, "-f and -o")
    refused(cli("consume", filled, "--follow", "--end", "5"), exits.USAGE, "--follow")
    refused(cli("consume", filled, "--filter", "x"), exits.USAGE, "condition")
    refused(cli("consume", filled, "-n", "0"), exits.USAGE, "--count")


def test_an_offset_that_is_gone_is_told(cli: Run) -> None:
    cli("produce", "cut", *"abcde")
    cli("topic", "trim", "cut", "--before", "3", "--yes")
    assert cli("consume", "cut").out.split() == ["d", "e"]
    refused(cli("consume", "cut", "--start", "1"), exits.NOT_FOUND, "offset 1")


def test_tail_shows_the_last_of_each_partition(cli: Run, filled: str) -> None:
    ended = cli("tail", filled, "-n", "2", "--no-follow")
    assert sorted(ended.out.split()) == ["v8", "v9", "w3", "w4"]
    rows = cli("tail", filled, "-n", "1", "--no-follow", "-o", "jsonl").lines(RecordRow)
    assert sorted(str(row.value) for row in rows) == ["v9", "w4"]


def following(cli: Run, *arguments: str) -> subprocess.Popen[bytes]:
    return cli.start(*arguments, env=os.environ | {"PYTHONUNBUFFERED": ""})


def read_lines(process: subprocess.Popen[bytes], count: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def test_tail_goes_on_with_what_comes_until_interrupted(cli: Run) -> None:
    cli("produce", "live", "before")
    process = following(cli, "tail", "live", "-n", "1")
    try:
        assert read_lines(process, 1) == [b"before\n"]
        cli("produce", "live", "after")
        assert read_lines(process, 1) == [b"after\n"]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == exits.INTERRUPTED
        assert b"Traceback" not in err
    finally:
        process.kill()
        process.wait()


def test_whoever_reads_may_leave_without_a_word_from_us(cli: Run) -> None:
    cli("produce", "piped", stdin="\n".join("x" * 100 for _ in range(20_000)))
    process = following(cli, "consume", "piped")
    try:
        assert read_lines(process, 1) == [b"x" * 100 + b"\n"]
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(LIMIT_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_a_reader_that_left_ends_a_tail_that_waits(cli: Run) -> None:
    cli("produce", "left", "one")
    process = following(cli, "tail", "left")
    try:
        assert read_lines(process, 1) == [b"one\n"]
        assert process.stdout is not None
        process.stdout.close()
        cli("produce", "left", "two")
        assert process.wait(LIMIT_S) == 0
    finally:
        process.kill()
        process.wait()


def test_bytes_come_out_as_they_went_in(cli: Run) -> None:
    cli("produce", "bytes", stdin=b"\xff\x00\x1b[2J\n")
    process = cli.start("consume", "bytes")
    out, _ = process.communicate(timeout=LIMIT_S)
    assert out == b"\xff\x00\x1b[2J\n"


def test_following_with_a_count_ends_by_itself(cli: Run) -> None:
    cli("produce", "counted", "a", "b", "c")
    begin = time.monotonic()
    assert cli("consume", "counted", "--follow", "-n", "2").out == "a\nb\n"
    assert time.monotonic() - begin < LIMIT_S


def transact(server: str, topic: str, *transactions: str, ends: str = "commit") -> None:
    """Each a record in a transaction of its own, with the mark behind it."""
    producer = Producer({"bootstrap.servers": server, "transactional.id": f"{topic}-{ends}"})
    producer.init_transactions(30)
    for value in transactions:
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush()
        producer.commit_transaction() if ends == "commit" else producer.abort_transaction()
    wait_until_marked(server, topic)


def test_the_last_records_are_records_though_marks_of_transactions_have_offsets(
    both: Run, any_server: str, name: str
) -> None:
    both("topic", "create", name, "-p", "2")
    transact(any_server, name, "a", "b", "c", "d")
    transact(any_server, name, "x", "y", "z", ends="abort")
    seen = ["a", "b", "c", "d", "x", "y", "z"]
    for count in (1, 3, 6, 7, 8):
        want = seen[-count:]
        assert both("tail", name, "-n", str(count), "--no-follow").out.split() == want
        assert both("consume", name, "--start", f"-{count}").out.split() == want
        assert both("consume", name, "--end", f"-{count}").out.split() == seen[:-count]
        committed = both("tail", name, "-n", str(count), "--no-follow", "--committed").out.split()
        assert committed == seen[:4][-count:]


def test_the_last_records_are_followed_by_what_comes_behind_the_marks(cli: Run, server: str, name: str) -> None:
    cli("topic", "create", name, "-p", "1")
    transact(server, name, "a", "b")
    running = cli.start("tail", name, "-n", "1")
    assert running.stdout is not None
    assert running.stdout.readline() == b"b\n"
    cli("produce", name, "c")
    assert running.stdout.readline() == b"c\n"
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=LIMIT_S)


def test_a_look_for_the_last_records_ends_and_says_so(
    cli: Run, server: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_records, "FARTHEST", 5)
    cli("topic", "create", name, "-p", "1")
    cli("produce", name, "early")
    transact(server, name, *"abcdef", ends="abort")
    ended = cli("consume", name, "--start", "-1", "--committed")
    assert ended.out == "" and f"{name}:0 has fewer records than 1 from 7 on." in ended.err
