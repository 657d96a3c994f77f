"""A program of somebody who gets everything wrong once: `python -m tests.spark.stumbles SERVERS TOPIC FOLDER`. What
each mistake came to is told as JSON: the error's text, and how many seconds it took."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import headrace.spark

NOWHERE = "127.0.0.1:1"
SETTINGS = {"spark__ui__enabled": "false", "spark__driver__memory": "512m"}


class Beginner:
    def __init__(self, spark: SparkSession, servers: str, topic: str, folder: str) -> None:
        self._spark, self._folder = spark, folder
        self._source = {"servers": servers, "subscribe": topic}
        self._sink = {"servers": servers, "topic": topic}
        self._queries = 0

    def reads(self, schema: str | None = None, **options: str) -> Callable[[], Any]:
        reader = self._spark.read.format("headrace").options(**self._source | options)
        return lambda: (reader if schema is None else reader.schema(schema)).load().count()

    def streams(self, **options: str) -> Callable[[], Any]:
        reader = self._spark.readStream.format("headrace").options(**self._source | options)
        return lambda: self._run(reader.load(), "noop", {})

    def writes(self, *columns: str, **options: str) -> Callable[[], Any]:
        frame = self._spark.range(1).selectExpr(*columns or ["cast(id as string) value"])
        return lambda: frame.write.format("headrace").mode("append").options(**self._sink | options).save()

    def writes_stream(self, **options: str) -> Callable[[], Any]:
        rows = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        return lambda: self._run(rows.selectExpr("cast(value as string) value"), "headrace", dict(self._sink | options))

    def _run(self, frame: DataFrame, form: str, options: dict[str, str]) -> None:
        self._queries += 1
        options["checkpointLocation"] = f"{self._folder}/{self._queries}"
        frame.writeStream.format(form).options(**options).trigger(availableNow=True).start().awaitTermination()


def mistakes(beginner: Beginner) -> dict[str, Callable[[], Any]]:
    return {
        "batch, bad option": beginner.reads(startingOffset="earliest"),
        "batch, bad value": beginner.reads(startingOffsets="newest"),
        "batch, not for batches": beginner.reads(startingOffsets="latest"),
        "batch, unreachable": beginner.reads(servers=NOWHERE),
        "batch, unknown topic": beginner.reads(subscribe="no-such-topic"),
        "batch, wrong schema": beginner.reads("value int"),
        "batch, unknown column": beginner.reads("val binary"),
        "stream, bad option": beginner.streams(maxOffsetPerTrigger="1"),
        "stream, not for streams": beginner.streams(endingOffsets="latest"),
        "stream, unreachable": beginner.streams(servers=NOWHERE),
        "stream, unknown topic": beginner.streams(subscribe="no-such-topic"),
        "write, bad option": beginner.writes(topik="t"),
        "write, unreachable": beginner.writes(servers=NOWHERE),
        "write, impossible topic": beginner.writes(topic="a/b c"),
        "write, wrong schema": beginner.writes("id value"),
        "write, no Avro schema": beginner.writes("id", **{"value.format": "avro", "value.schema": '{"fields": []}'}),
        "write, no such partition": beginner.writes("'x' value", "7 partition"),
        "query, bad value": beginner.writes_stream(compression="rar"),
        "query, unreachable": beginner.writes_stream(servers=NOWHERE),
    }


def main(servers: str, topic: str, folder: str) -> None:
    spark = headrace.spark.session("stumbles", "local[2]", **SETTINGS)
    beginner = Beginner(spark, servers, topic, folder)
    beginner.reads()()  # what only the first one pays
    told = {}
    for name, mistake in mistakes(beginner).items():
        begin = time.monotonic()
        try:
            mistake()
            told[name] = ("nothing", 0.0)
        except PySparkException as error:
            told[name] = (str(error), time.monotonic() - begin)
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
