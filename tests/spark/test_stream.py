"""Topics read as streams: nothing twice, nothing left out, across restarts, growth and loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import headrace
import headrace.spark
from tests.spark.data import create, fill, records, rows

pytestmark = pytest.mark.timeout(600)
LIMIT_S = 180.0  # until a first micro-batch is done, on a busy machine


def stream(spark: SparkSession, address: str, topic: str, **options: Any) -> DataFrame:
    given = {"servers": address, "subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true", **options}
    return spark.readStream.format("headrace").options(**given).load()


def start(frame: DataFrame, folder: Path, **trigger: Any) -> StreamingQuery:
    """Into Parquet files, whose own log keeps a batch that runs again from being there twice."""
    writer = frame.writeStream.format("parquet").option("path", str(folder / "out"))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**trigger).start()


def run(frame: DataFrame, folder: Path) -> StreamingQuery:
    query = start(frame, folder, availableNow=True)
    query.awaitTermination()
    return query


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_stream_goes_on_where_it_stopped(spark: SparkSession, address: str, topic: str, tmp_path: Path) -> None:
    create(address, topic)
    for first in (0, 500):
        fill(address, topic, 500, first=first)
        run(stream(spark, address, topic), tmp_path)
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == records(address, topic)


def test_a_micro_batch_takes_no_more_than_asked_and_tells_where_the_end_is(
    spark: SparkSession, address: str, topic: str, tmp_path: Path
) -> None:
    create(address, topic)
    fill(address, topic, 1_000)
    query = run(stream(spark, address, topic, maxOffsetsPerTrigger=400), tmp_path)
    done = [one for one in query.recentProgress if one.numInputRows]
    assert [one.numInputRows for one in done] == [400, 400, 200]
    latest = spark.read.json(spark.sparkContext.parallelize([done[0].sources[0].latestOffset])).first()
    assert latest is not None and sum(latest[topic]) == 1_000
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == records(address, topic)


def test_a_growing_topic_and_its_new_partitions_are_followed(
    spark: SparkSession, address: str, topic: str, tmp_path: Path
) -> None:
    create(address, topic, 1)
    query = start(stream(spark, address, topic), tmp_path, processingTime="0 seconds")
    try:
        fill(address, topic, 100, 1)
        until(lambda: sum(one.numInputRows for one in query.recentProgress) == 100)
        with headrace.connect(address) as client:
            client.admin.add_partitions(topic, 3)
        fill(address, topic, 300, 3, first=100)
        until(lambda: sum(one.numInputRows for one in query.recentProgress) == 400)
    finally:
        query.stop()
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == records(address, topic)


@pytest.mark.parametrize("is_registered", [False, True], ids=["as Spark finds it", "registered"])
def test_progress_shows_as_the_positions_of_a_group(
    spark: SparkSession, address: str, topic: str, tmp_path: Path, is_registered: bool
) -> None:
    session = spark.newSession()  # which nobody has registered with
    if is_registered:
        headrace.spark.register(session)
    create(address, topic)
    fill(address, topic, 90)
    run(stream(session, address, topic, group=f"spark-{topic}", maxOffsetsPerTrigger=60), tmp_path)
    with headrace.connect(address) as client:

        def published() -> list[int]:
            found = client.admin.group_offsets(f"spark-{topic}")
            return [found[where].offset for where in sorted(found)]

        until(lambda: published() == [30, 30, 30])


def test_a_stream_whose_records_retention_took_fails_with_their_offsets_or_goes_on(
    spark: SparkSession, address: str, topic: str, tmp_path: Path
) -> None:
    create(address, topic, 1)
    fill(address, topic, 50, 1)
    run(stream(spark, address, topic), tmp_path)
    fill(address, topic, 50, 1, first=50)
    with headrace.connect(address) as client:
        client.admin.delete_records(topic, {0: 70})
    with pytest.raises(StreamingQueryException, match="took 50 to 69 before it was read"):
        run(stream(spark, address, topic), tmp_path)
    run(stream(spark, address, topic, failOnDataLoss="false"), tmp_path)
    found = rows(spark.read.parquet(str(tmp_path / "out")))
    assert [row[4] for row in found] == [*range(50), *range(70, 100)]


def test_a_topic_made_anew_is_not_taken_for_the_old_one(
    spark: SparkSession, address: str, topic: str, tmp_path: Path
) -> None:
    create(address, topic, 1)
    fill(address, topic, 10, 1)
    run(stream(spark, address, topic), tmp_path)
    with headrace.connect(address) as client:
        client.admin.delete_topic(topic)
    create(address, topic, 1)
    fill(address, topic, 30, 1, first=1_000)
    with pytest.raises(StreamingQueryException, match="was deleted and made again"):
        run(stream(spark, address, topic), tmp_path)
    run(stream(spark, address, topic, failOnDataLoss="false"), tmp_path)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 40
