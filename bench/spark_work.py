"""What Spark is given to do, through our source and sink and through its own connector: the same topic, the same rows,
the same Spark. Rows that are read go to Spark's `noop` format, which takes each whole row and drops it.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import headrace
from headrace.records.codec import BatchOptions
from headrace.records.columns import from_arrow

VALUE_BYTES, KEY_BYTES = 100, 10
BATCH_BYTES = 128 << 10
PARTITIONS = 2  # as many as cores: neither side gains by splitting or gathering
TOPIC, SMALL_TOPIC, TOUCHED_TOPIC = "bench-rows", "bench-small", "bench-touched"
SMALL_BATCHES, SMALL_ROWS = 10, 100  # micro-batches of one query, and the rows of each


@dataclass(frozen=True)
class Way:
    """One of those that are compared."""

    name: str
    format: str
    reading: dict[str, str]
    writing: dict[str, str]


OURS = Way("headrace", "headrace", {}, {})
# As somebody sets it who wants throughput: large fetches, many records a poll; large batches that wait a little.
TUNED = {
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
}
TUNED_WRITES = {
    "kafka.batch.size": str(1 << 20),
    "kafka.linger.ms": "20",
    "kafka.buffer.memory": str(128 << 20),
    "kafka.send.buffer.bytes": str(1 << 20),
    "kafka.max.request.size": str(8 << 20),
}
WAYS = (OURS, Way("default", "kafka", {}, {}), Way("tuned", "kafka", TUNED, TUNED_WRITES))


@dataclass
class Bench:
    spark: SparkSession
    address: str
    rows: int

    def fill(self) -> None:
        """Both topics; 10,000 different rows, again and again."""
        kept = range(10_000)
        keys = pa.array([b"%0*d" % (KEY_BYTES, row) for row in kept], pa.binary())
        values = pa.array([b"%012d" % row + b"abcdefgh" * ((VALUE_BYTES - 12) // 8) for row in kept], pa.binary())
        table = pa.record_batch({"key": keys, "value": values})
        with headrace.connect(self.address) as client:
            client.admin.create_topic(TOUCHED_TOPIC, partitions=PARTITIONS)
            for topic, rows in ((TOPIC, self.rows), (SMALL_TOPIC, SMALL_BATCHES * SMALL_ROWS)):
                client.admin.create_topic(topic, partitions=PARTITIONS)
                left, turn = rows, 0
                while left > 0:
                    piece = table.slice(0, left)
                    for batch in from_arrow(piece, BatchOptions(), max_batch_bytes=BATCH_BYTES):
                        client.produce_batches(topic, turn % PARTITIONS, batch, 1)
                    left, turn = left - piece.num_rows, turn + 1

    def frame(self, way: Way, columns: str | None = None, topic: str = TOPIC) -> DataFrame:
        reader = self.spark.read.format(way.format).options(**self._where(topic), **way.reading)
        return _projected(reader, way, columns)

    def stream(self, way: Way, topic: str, **options: str) -> DataFrame:
        reader = self.spark.readStream.format(way.format).options(**self._where(topic), **way.reading, **options)
        return _projected(reader.option("startingOffsets", "earliest"), way, None)

    def _where(self, topic: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.address, "subscribe": topic}

    def touch(self, part: str, way: Way) -> None:
        """The same on a few rows, so that its processes are there: Spark ends Python workers that idled a minute."""
        if part in ("read_stream", "small_batches"):
            self._run(self.stream(way, SMALL_TOPIC))
        elif part == "write":
            self.write(way, TOUCHED_TOPIC, SMALL_ROWS)
        else:
            drop(self.frame(way, "value" if part == "read_value" else None, SMALL_TOPIC))

    # The work: each gives the count of what it did.

    def read_all(self, way: Way) -> int:
        drop(self.frame(way))
        return self.rows

    def read_value(self, way: Way) -> int:
        drop(self.frame(way, "value"))
        return self.rows

    def read_stream(self, way: Way) -> int:
        read = sum(one["numInputRows"] for one in self._run(self.stream(way, TOPIC)).recentProgress)
        assert read == self.rows, f"{way.name} streamed {read:,} rows of {self.rows:,}"
        return self.rows

    def write(self, way: Way, topic: str, count: int) -> int:
        rows = made(self.spark, count)
        to = {"kafka.bootstrap.servers": self.address, "topic": topic}
        rows.write.format(way.format).mode("append").options(**to, **way.writing).save()
        return count

    def small_batches(self, way: Way, waited: list[float]) -> int:
        """Micro-batches with next to nothing in them; `waited` gets the milliseconds that each took, the first apart:
        it starts what the others find there."""
        frame = self.stream(way, SMALL_TOPIC, maxOffsetsPerTrigger=str(SMALL_ROWS))
        progress = self._run(frame).recentProgress
        batches = [one for one in progress if one["numInputRows"]]
        assert len(batches) == SMALL_BATCHES, f"{way.name} took {len(batches)} micro-batches"
        waited.append(statistics.median(one["durationMs"]["triggerExecution"] for one in batches[1:]))
        return len(batches)

    def _run(self, frame: DataFrame) -> StreamingQuery:
        """To the end of what there is."""
        folder = tempfile.mkdtemp(prefix="headrace-bench-checkpoint-")
        try:
            writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            return query
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    # Besides

    def check(self) -> None:
        """Both read the same rows, byte for byte: else their speed says nothing."""
        sums = ("count(*)", "sum(crc32(value))", "sum(crc32(key))", "sum(offset)", "sum(partition)", "max(timestamp)")
        ours, *others = (self.frame(way).selectExpr(*sums).first() for way in WAYS)
        assert all(other == ours for other in others), f"{ours} but {others}"

    def written(self, topic: str) -> int:
        with headrace.connect(self.address) as client, client.columns(topic, columns=["offset"], follow=False) as found:
            return sum(table.num_rows for table in found)


def _projected(reader: Any, way: Way, columns: str | None) -> DataFrame:
    """Ours is told by a schema which columns are wanted; Spark's own reads all of them and selects."""
    if columns is None:
        return reader.load()  # type: ignore[no-any-return]
    if way is OURS:
        return reader.schema(f"{columns} binary").load()  # type: ignore[no-any-return]
    return reader.load().select(columns)  # type: ignore[no-any-return]


def made(spark: SparkSession, count: int) -> DataFrame:
    """Rows to write."""
    return spark.range(0, count, 1, PARTITIONS).selectExpr(
        f"cast(lpad(cast(id as string), {KEY_BYTES}, '0') as binary) key",
        f"cast(rpad(cast(id as string), {VALUE_BYTES}, 'abcdefgh') as binary) value",
    )


def drop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
