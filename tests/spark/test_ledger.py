"""What a ledger leaves out is never left out in silence, and is what was written before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import headrace
from headrace.spark import ledger
from headrace.spark.sink_options import SinkOptions
from tests.spark.data import create, values
from tests.spark.test_sink import copy, write
from tests.spark.test_stream import stream

pytestmark = pytest.mark.timeout(300)


def test_a_checkpoint_that_was_put_back_is_refused_and_its_rows_are_not_taken_for_written(
    spark: SparkSession, headrace_address: str, topic: str, tmp_path: Path
) -> None:
    for name in (topic, f"{topic}-copy"):
        create(headrace_address, name, 1)
    for number in range(3):
        write(spark.range(number, number + 1).selectExpr("cast(id as string) value"), headrace_address, topic)
        copy(stream(spark, headrace_address, topic).select("value"), headrace_address, f"{topic}-copy", tmp_path / "at")
        if number == 0:
            shutil.copytree(tmp_path / "at", tmp_path / "backup")
    write(spark.range(3, 5).selectExpr("cast(id as string) value"), headrace_address, topic)
    again = stream(spark, headrace_address, topic).select("value")
    words = r"checkpoint is older than what was written: it comes with batch 1, and batch 2 of (spark:\S+) is committed"
    for _ in range(2):  # it stays refused
        with pytest.raises(StreamingQueryException, match=words) as refused:
            copy(again, headrace_address, f"{topic}-copy", tmp_path / "backup")
    assert values(headrace_address, f"{topic}-copy") == [b"0", b"1", b"2"]
    assert "put the newer checkpoint back" in str(refused.value) and "headrace txn forget spark:" in str(refused.value)
    copy(again, headrace_address, f"{topic}-copy", tmp_path / "at")
    assert sorted(values(headrace_address, f"{topic}-copy")) == [b"0", b"1", b"2", b"3", b"4"]


def test_what_one_micro_batch_writes_to_several_topics_under_one_id_is_all_there_and_once(
    spark: SparkSession, headrace_address: str, topic: str
) -> None:
    """By the option and by a column."""
    frame = spark.range(10).selectExpr("cast(id as string) value")
    targets = [f"{topic}-good", f"{topic}-bad"]
    for name in (*targets, f"{topic}-of-rows"):
        create(headrace_address, name, 1)
    for _ in range(2):
        for name in targets:
            write(frame, headrace_address, name, writeId=topic, batchId=3)
        rows = frame.selectExpr("value", f"'{topic}-of-rows' topic").write.format("headrace").mode("append")
        rows.options(servers=headrace_address, writeId=topic, batchId=3).save()
    for name in (*targets, f"{topic}-of-rows"):
        assert sorted(values(headrace_address, name)) == [b"%d" % row for row in range(10)], name


def test_no_two_writes_share_a_ledger_whatever_is_in_their_names() -> None:
    """And none has a `#`, which ends a query's name: a topic that cannot be is refused as such, later."""
    given = [
        ("w", "a"),
        ("w/a", None),
        ("w", None),
        ("w/a", "b"),
        ("w", "a/b"),
        ("w/a/b", None),
        ("w", "#"),
        ("%23", "#"),
    ]
    options = [SinkOptions(servers="h:1", timeout=1.0, write_id=write_id, topic=name) for write_id, name in given]
    names = {ledger.of_write(one) for one in options}
    assert len(names) == len(given) and not any("#" in name for name in names)


def test_a_write_that_a_ledger_of_before_has_is_not_written_again(
    spark: SparkSession, headrace_address: str, topic: str
) -> None:
    """Its name was the id alone."""
    create(headrace_address, topic, 1)
    frame = spark.range(3).selectExpr("cast(id as string) value")
    with headrace.connect(headrace_address) as client:
        before = f"spark-batch:{topic}"
        member = client.admin.open_member(before, client.admin.draw_write(), "0.0", 60_000)
        with client.column_producer(member=member) as producer:
            producer.put(topic, pa.record_batch({"value": pa.array([b"before"])}))
        client.admin.commit_batch(before, 4, [member])
    for batch in range(6):
        write(frame, headrace_address, topic, writeId=topic, batchId=batch)
    assert sorted(values(headrace_address, topic)) == [b"0", b"1", b"2", b"before"]
    with headrace.connect(headrace_address) as client:
        assert not [one for one in client.admin.list_transactions(["Ongoing"]) if topic in one.id]
