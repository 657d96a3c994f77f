"""Pipelines that end in topics: dead letters, replays and targets, exactly once over restarts."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace import Record
from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines.progress import recorded
from tests.pipelines.conftest import Run, order_at, send

pytestmark = pytest.mark.timeout(600)  # several runs of Spark, on a busy machine

AT_MS = int(time.time() * 1000) - 60_000


def read(address: str, topic: str, count: int) -> list[Record]:
    """All committed records that there are."""
    with (
        headrace.connect(address) as client,
        client.consumer(topic, isolation="read_committed", follow=False) as consumer,
    ):
        found = list(consumer)
    assert len(found) == count, found
    return found


def test_bad_rows_go_to_their_topic_with_the_reason_and_good_ones_go_on(
    headrace_address: str, topic: str, run: Run
) -> None:
    bad, good = f"{topic}.bad", f"{topic}.good"
    values = [order_at(0, 1), b"{nonsense", order_at(0, 0), b'{"id": "\xff"}', order_at(0, 2)]
    send(headrace_address, topic, values)
    sections: dict[str, Any] = {
        "deadletter": {"topic": bad, "checks": {"amount is not positive": "amount > 0"}},
        "target": {"topic": good, "key": "id"},
    }
    run(**sections)
    send(headrace_address, topic, [order_at(0, 3)])
    run(**sections)
    kept = read(headrace_address, good, 3)
    assert [(record.key, json.loads(record.value or b"")["amount"]) for record in kept] == [
        (b"1", 1.0), (b"2", 2.0), (b"3", 3.0),
    ]  # fmt: skip
    aside = {bytes(record.value or b""): dict(record.headers) for record in read(headrace_address, bad, 3)}
    assert set(aside) == {values[1], values[2], values[3]}
    assert aside[values[2]]["headrace.reason"] == b"amount is not positive"
    why = b"the value is not JSON of the schema: JSON is malformed: object keys must be strings (byte 1)"
    assert aside[values[1]]["headrace.reason"] == why
    assert aside[values[3]]["headrace.reason"] == b"the value is not UTF-8"
    assert aside[values[1]]["headrace.topic"] == topic.encode()
    assert aside[values[1]]["headrace.offset"] == b"1"


@pytest.mark.parametrize("source", [{}, {"format": "raw", "schema": ""}, {"format": "text", "schema": ""}])
def test_a_bad_row_keeps_its_key_its_headers_and_its_time(
    headrace_address: str, topic: str, run: Run, source: dict[str, str]
) -> None:
    with headrace.connect(headrace_address) as client, client.producer() as producer:
        producer.put(topic, b"nonsense", b"k", [("trace", b"1"), ("trace", None)], timestamp_ms=AT_MS)
        producer.put(topic, b"nonsense", None, [], timestamp_ms=AT_MS + 1)
    checks = {"too far": "partition > 9" if source.get("format") == "raw" else "_partition > 9"}
    run(source=source, deadletter={"topic": f"{topic}.bad", "checks": checks}, target={"topic": f"{topic}.good"})
    first, second = sorted(read(headrace_address, f"{topic}.bad", 2), key=lambda record: record.key or b"~")
    assert (first.key, second.key) == (b"k", None)
    assert first.headers[:2] == (("trace", b"1"), ("trace", None))
    assert [name for name, _ in second.headers] == [name for name, _ in first.headers[2:]]
    assert dict(first.headers)["headrace.timestamp"] == b"%d" % AT_MS
    assert dict(second.headers)["headrace.timestamp"] == b"%d" % (AT_MS + 1)


def test_bad_rows_of_an_archive_are_set_aside_too(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    send(headrace_address, topic, [order_at(0, 1), b"nonsense", order_at(0, 2)])
    run(deadletter={"topic": f"{topic}.bad"}, archive={"path": str(tmp_path / "out"), "time": "at"})
    assert sorted(row.id for row in piping.read.parquet(str(tmp_path / "out")).collect()) == ["1", "2"]
    assert [record.value for record in read(headrace_address, f"{topic}.bad", 1)] == [b"nonsense"]


def test_a_report_says_that_rows_were_counted_twice_where_they_were_read_twice(
    headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    send(headrace_address, topic, [order_at(0, 1), b"nonsense", order_at(0, 2)])
    aside, archive = {"topic": f"{topic}.bad"}, {"path": str(tmp_path / "out"), "time": "at"}
    for report in (
        run("topic", deadletter=aside, target={"topic": f"{topic}.good"}),
        run("archive", deadletter=aside, archive=archive),
    ):
        assert report.rows == 6
        assert "; 6 rows (each is read twice and counted so, for [deadletter]) in " in report.line
    once = run("once", source={"format": "raw", "schema": ""}, target={"topic": f"{topic}.all"})
    assert once.rows == 3
    assert "; 3 rows in " in once.line


def test_an_archive_is_replayed_to_a_topic_between_two_times_and_once(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    """As it came, to the microsecond, and without the archive's date; a date that somebody else gave is a column."""
    orders = [order_at(0.123450 + number / 1_000_000, number) for number in range(50)]
    send(headrace_address, topic, orders)
    run("store", archive={"path": str(tmp_path / "out"), "time": "at"})
    again = {"path": str(tmp_path / "out"), "rate": 1000.0}
    for _ in range(2):
        run("again", replay=again, target={"topic": f"{topic}.again", "key": "id"})
    found = read(headrace_address, f"{topic}.again", 50)
    assert sorted(int(record.key or b"") for record in found) == list(range(50))
    values = [json.loads((record.value or b"").replace(b"Z", b"+00:00")) for record in found]
    assert sorted(values, key=lambda value: int(value["id"])) == [json.loads(order) for order in orders]

    theirs = str(tmp_path / "files")
    rows = piping.sql("select 1 as id, date'2026-01-31' as date, timestamp_ntz'2026-01-31 00:00:00.000001' as at")
    rows.write.partitionBy("date").parquet(theirs)
    run("theirs", replay={"path": theirs}, target={"topic": f"{topic}.theirs"})
    (record,) = read(headrace_address, f"{topic}.theirs", 1)
    expected = {"id": 1, "date": "2026-01-31", "at": "2026-01-31T00:00:00.000001"}
    assert json.loads(record.value or b"") == expected


def test_a_record_keeps_its_headers_and_its_time_through_steps_archive_and_replay(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    with headrace.connect(headrace_address) as client, client.producer() as producer:
        for second, headers in ((0, [("trace", b"abc"), ("trace", None)]), (1, []), (2, [("twice", b"")]), (60, [])):
            producer.put(topic, b"%d" % second, b"%d" % (second % 2), headers, timestamp_ms=AT_MS + 1000 * second)
    sent = read(headrace_address, topic, 4)
    raw: dict[str, Any] = {"source": {"format": "raw", "schema": ""}}
    steps = {"deadletter": {"topic": f"{topic}.bad"}, "dedup": {"by": ["key"], "within": "5s"}, "order": {"late": "5s"}}
    run("once", **raw, **steps, target={"topic": f"{topic}.once"})

    path, old = (
        str(tmp_path / "out"),
        datetime(2026, 1, 31, 12, tzinfo=UTC),
    )  # retention takes nothing so old from the replay's topic
    before = [(b"k", b"before", topic, 0, 7, old, old.date())]  # by an archive that had no headers
    columns = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, date date"
    piping.createDataFrame(before, columns).write.partitionBy("date").parquet(path)
    run("store", **raw, archive={"path": path})
    run("again", replay={"path": path}, target={"topic": f"{topic}.again"})

    def kept(records: list[Record]) -> list[tuple[object, ...]]:
        return sorted((one.timestamp_ms, one.key, one.value, one.headers) for one in records)

    assert sent[0].headers == (("trace", b"abc"), ("trace", None))
    assert kept(read(headrace_address, f"{topic}.once", 2)) == kept(sent[:2])
    first, *others = kept(read(headrace_address, f"{topic}.again", 5))
    assert first == (old.timestamp() * 1000, b"k", b"before", ())
    assert others == kept(sent)
    with headrace.connect(headrace_address) as client:
        settings = client.admin.config("topic", f"{topic}.again")
    assert {one.name: one.value for one in settings}["retention.ms"] == "-1"


def test_a_replay_does_not_go_on_over_files_that_were_merged_since(
    headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    archive = {"path": str(tmp_path / "out"), "time": "at", "compact_files": 2}
    again: dict[str, Any] = {"replay": {"path": str(tmp_path / "out")}, "target": {"topic": f"{topic}.again"}}
    send(headrace_address, topic, [order_at(0, 1)])
    run("store", archive=archive)
    run("again", **again)
    send(headrace_address, topic, [order_at(0, 2)])
    run("store", archive=archive)
    with pytest.raises(InvalidOption, match="were merged since; they would come again"):
        run("again", **again)
    read(headrace_address, f"{topic}.again", 1)


def test_a_replay_keeps_its_rate(headrace_address: str, topic: str, run: Run, tmp_path: Path) -> None:
    send(headrace_address, topic, [order_at(0, number) for number in range(100)])

    def took_s(name: str, rate: float) -> float:
        run(name, replay={"topic": topic, "rate": rate}, target={"topic": f"{topic}.{name}"})
        return sum(one.seconds for one in recorded(tmp_path / name))

    fast_s = min(took_s("first", 0.0), took_s("second", 0.0))  # what Spark takes anyway: the first run warms it up
    paced_s = fast_s + 5.0  # more than that, however busy the machine is; Spark's own time only adds to it
    assert took_s("again", 100 / paced_s) > paced_s - 0.1
    again, before = read(headrace_address, f"{topic}.again", 100), read(headrace_address, topic, 100)
    assert [record.value for record in again] == [order_at(0, number) for number in range(100)]
    assert [record.timestamp_ms for record in again] == [record.timestamp_ms for record in before]


def test_a_rollup_ends_in_a_topic_once_over_a_restart(headrace_address: str, topic: str, run: Run) -> None:
    sections: dict[str, Any] = {
        "rollup": {"time": "at", "window": "1 minute", "late": "1s", "values": {"n": "count"}},
        "target": {"topic": f"{topic}.minutes"},
    }
    send(headrace_address, topic, [order_at(second, second) for second in range(100)])
    run(**sections)
    send(headrace_address, topic, [order_at(second, second) for second in range(100, 130)] + [order_at(9000, 0)])
    run(**sections)
    run(**sections)
    found = [json.loads(record.value or b"") for record in read(headrace_address, f"{topic}.minutes", 3)]
    assert sorted((row["window_start"], row["n"]) for row in found) == [
        ("2026-01-31T00:00:00.000000Z", 60),
        ("2026-01-31T00:01:00.000000Z", 60),
        ("2026-01-31T00:02:00.000000Z", 10),
    ]
