"""A program of somebody who gets everything wrong once: `python -m tests.spark.stumbles SERVERS TOPIC FOLDER`. What
each mistake came to is told as JSON: the error's text, and how many seconds it took."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import headrace.spark

NOWHERE = "127.0.0.1:1"
SETTINGS = {"spark__ui__enabled": "false", "spark__driver__memory": "512m"}
DECIMAL = '{"type": "bytes", "logicalType": "decimal"%s}'
HEADERS = "array(named_struct('key', %s, 'value', cast('v' as binary))) headers"

AMOUNT = {
    "value.format": "avro",
    "value.schema": '{"type": "record", "name": "R", "fields": [{"name": "amount", "type": "long", "default": 0}]}',
}


class Beginner:
    def __init__(self, spark: SparkSession, servers: str, topic: str, folder: str) -> None:
        self._spark, self._folder = spark, folder
        self.latin = str(Path(folder, "latin.avsc"))
        Path(self.latin).write_bytes('{"type": "string", "doc": "grün"}'.encode("latin-1"))
        self._source = {"servers": servers, "subscribe": topic}
        self._sink = {"servers": servers, "topic": topic}
        self._queries = 0

    def reads(self, schema: str | None = None, **options: str) -> Callable[[], Any]:
        reader = self._spark.read.format("headrace").options(**self._source | options)
        return lambda: (reader if schema is None else reader.schema(schema)).load().count()

    def reads_avro(self, schema: str) -> Callable[[], Any]:
        return self.reads(**{"value.format": "avro", "value.schema": schema})

    def streams(self, schema: str | None = None, **options: str) -> Callable[[], Any]:
        reader = self._spark.readStream.format("headrace").options(**self._source | options)
        return lambda: self._run((reader if schema is None else reader.schema(schema)).load(), "noop", {})

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
        "batch, no address": beginner.reads(servers="http://x:1"),
        "batch, no port": beginner.reads(servers="x:99999"),
        "batch, a time too far": beginner.reads(startingTimestamp=str(1 << 70)),
        "batch, a time too long": beginner.reads(timeout="99999999999999999999d"),
        "batch, too much": beginner.reads(prefetchBytes=str(1 << 70)),
        "batch, nested too deeply": beginner.reads(startingOffsets="[" * 100_000),
        "batch, a column twice": beginner.reads("value binary, value binary"),
        "batch, behind the end": beginner.reads(startingOffsets='{"t": {"0": 1000}}'),
        "batch, backwards": beginner.reads(startingOffsets='{"t": {"0": 2}}', endingOffsets='{"t": {"0": 1}}'),
        "batch, no such file": beginner.reads_avro("none.avsc"),
        "batch, a file that is no text": beginner.reads_avro(beginner.latin),
        "batch, a decimal too wide": beginner.reads_avro(DECIMAL % ', "precision": 50'),
        "batch, a decimal of no width": beginner.reads_avro(DECIMAL % ""),
        "stream, no address": beginner.streams(servers="[::1"),
        "stream, bad option": beginner.streams(maxOffsetPerTrigger="1"),
        "stream, not for streams": beginner.streams(endingOffsets="latest"),
        "stream, unreachable": beginner.streams(servers=NOWHERE),
        "stream, unknown topic": beginner.streams(subscribe="no-such-topic"),
        "stream, wrong type of decoded values": beginner.streams("value int", **{"value.format": "text"}),
        "write, bad option": beginner.writes(topik="t"),
        "write, unreachable": beginner.writes(servers=NOWHERE),
        "write, impossible topic": beginner.writes(topic="a/b c"),
        "write, wrong schema": beginner.writes("id value"),
        "write, no Avro schema": beginner.writes("id", **{"value.format": "avro", "value.schema": '{"fields": []}'}),
        "write, no such partition": beginner.writes("'x' value", "7 partition"),
        "write, no address": beginner.writes(servers=":9092"),
        "write, no such file": beginner.writes("id", **{"value.format": "avro", "value.schema": "none.avsc"}),
        "write, a header without a key": beginner.writes("'x' value", HEADERS % "cast(null as string)"),
        "write, months": beginner.writes("array(interval '1' month) m", **{"value.format": "json"}),
        "write, no text": beginner.writes("cast(x'ff' as string) s", **{"value.format": "json"}),
        "write, other than Avro's name": beginner.writes("id Amount", **AMOUNT),
        "write, other than Avro's type": beginner.writes("1.5D amount", **AMOUNT),
        "write, null where Avro has none": beginner.writes("nullif(id, 0) amount", **AMOUNT),
        "write, a number without an id": beginner.writes(batchId="3"),
        "query, an id of its own": beginner.writes_stream(writeId="mine"),
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
