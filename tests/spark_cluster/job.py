"""A program that a user runs against a cluster: `python job.py MASTER SERVERS FOLDER`. It reads and writes through
Headrace's format and through Spark's own Kafka connector, and tells what it saw as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession

from headrace.spark.jars import kafka_jars
from headrace.spark.pipelines.session import session

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "2",
    # Both executors are there before the first task runs, so that each gets some.
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    "spark.locality.wait": "0s",
}
ROWS = ["hex(key) key", "hex(value) value", "topic", "partition", "offset", "timestampType"]
ROWS += ["unix_millis(timestamp) at", "transform(headers, h -> struct(h.key, hex(h.value))) headers"]


def told(_: object) -> Iterator[tuple[str, str, bool]]:
    """Where a task runs, and which Headrace it has."""
    import headrace
    from headrace.records import kernel

    yield os.getcwd(), headrace.__file__, kernel.NATIVE


def rows(frame: DataFrame) -> list[list[object]]:
    return [list(row) for row in frame.selectExpr(*ROWS).orderBy("partition", "offset").collect()]


class Job:
    def __init__(self, spark: SparkSession, servers: str, folder: str) -> None:
        self._spark, self._folder = spark, folder
        self._servers = {"kafka.bootstrap.servers": servers}

    def read(self, form: str, topic: str, **options: str) -> DataFrame:
        given = self._servers | {"subscribe": topic, "includeHeaders": "true", "minPartitions": "2"} | options
        return self._spark.read.format(form).options(**given).load()

    def write(self, form: str, frame: DataFrame, topic: str) -> None:
        frame.write.format(form).mode("append").options(**self._servers, topic=topic).save()

    def copy(self, form: str, topic: str, to: str) -> None:
        """A query from the beginning to the end of what there is."""
        given = self._servers | {"subscribe": topic, "startingOffsets": "earliest"}
        frame = self._spark.readStream.format(form).options(**given).load().select("key", "value")
        writer = frame.writeStream.format(form).options(**self._servers, topic=to)
        writer = writer.option("checkpointLocation", f"{self._folder}/{to}")
        writer.trigger(availableNow=True).start().awaitTermination()


def main(master: str, servers: str, folder: str) -> None:
    jars = ",".join(map(str, kafka_jars()))
    spark = session("cluster", master, {**SETTINGS, "spark.jars": jars})
    try:
        where = spark.sparkContext.parallelize(range(8), 8).mapPartitions(told).collect()
        job = Job(spark, servers, folder)
        seen = {form: rows(job.read(form, "given")) for form in ("headrace", "kafka")}
        made = spark.range(0, 1_000, 1, 4).selectExpr("cast(id as string) key", "concat('made ', id) value")
        for form in seen:
            job.write(form, made, f"written-{form}")
            job.copy(form, "given", f"copied-{form}")
        committed = {"kafka.isolation.level": "read_committed"}
        ours = [
            row.value
            for row in job.read("kafka", "written-headrace", **committed).selectExpr("string(value) value").collect()
        ]
        print(json.dumps({"where": where, "seen": seen, "ours by the connector": sorted(ours)}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
