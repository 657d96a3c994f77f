"""Rows of an archive that are replayed and fail a check: as records where they are some, else as what they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace
from tests.pipelines.conftest import Run, order_at
from tests.pipelines.test_topics import read

pytestmark = pytest.mark.timeout(600)  # several runs of Spark, on a busy machine

CHECKS = {"amount is not positive": "amount > 0"}


def test_decoded_rows_of_an_archive_go_aside_as_json_and_tell_where_they_came_from(
    headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    with headrace.connect(headrace_address) as client, client.producer() as producer:
        for number in range(3):
            producer.put(topic, order_at(0, number), b"key %d" % number)
    path = str(tmp_path / "out")
    run("store", archive={"path": path, "time": "at"})
    aside = {"topic": f"{topic}.bad", "checks": CHECKS}
    run("again", replay={"path": path}, deadletter=aside, target={"topic": f"{topic}.again", "key": "id"})
    assert sorted(record.key or b"" for record in read(headrace_address, f"{topic}.again", 2)) == [b"1", b"2"]
    (bad,) = read(headrace_address, f"{topic}.bad", 1)
    assert bad.key == b"key 0"
    assert json.loads((bad.value or b"").replace(b".000000Z", b"+00:00")) == json.loads(order_at(0, 0))
    headers = dict(bad.headers)
    assert int(headers.pop("headrace.timestamp") or b"") > 0
    assert headers == {
        "headrace.reason": b"amount is not positive", "headrace.topic": topic.encode(),
        "headrace.partition": b"0", "headrace.offset": b"0",
    }  # fmt: skip


def test_rows_that_never_were_records_go_aside_with_the_reason_alone(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    path, again = str(tmp_path / "files"), str(tmp_path / "out")
    piping.sql("select col1 as amount, date'2026-01-31' as date, now() as at from values (1), (-1)").write.parquet(path)
    aside = {"topic": f"{topic}.bad", "checks": CHECKS}
    run("again", replay={"path": path}, deadletter=aside, archive={"path": again, "time": "at"})
    found = piping.read.parquet(again)
    assert sorted(found.columns) == ["amount", "at", "date"]
    assert [row.amount for row in found.collect()] == [1]
    (bad,) = read(headrace_address, f"{topic}.bad", 1)
    value = json.loads(bad.value or b"")
    assert (bad.key, value["amount"], value["date"]) == (None, -1, "2026-01-31")
    assert bad.headers == (("headrace.reason", b"amount is not positive"),)


def test_records_of_an_archive_go_aside_as_they_came_also_where_some_went_aside_before(
    headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    with headrace.connect(headrace_address) as client, client.producer() as producer:
        for value in (b"a", b"b"):
            producer.put(topic, value, b"key", [("own", value)])
    path, raw = str(tmp_path / "out"), {"format": "raw", "schema": ""}
    run("store", source=raw, deadletter={"topic": f"{topic}.bad"}, archive={"path": path})
    aside = {"topic": f"{topic}.bad", "checks": {"it is b": "value <> 'b'"}}
    run("again", replay={"path": path}, deadletter=aside, target={"topic": f"{topic}.again"})
    assert [record.value for record in read(headrace_address, f"{topic}.again", 1)] == [b"a"]
    (bad,) = read(headrace_address, f"{topic}.bad", 1)
    assert (bad.key, bad.value, bad.headers[0]) == (b"key", b"b", ("own", b"b"))
    assert dict(bad.headers)["headrace.reason"] == b"it is b" and dict(bad.headers)["headrace.offset"] == b"1"
