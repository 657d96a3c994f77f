"""A driver in a process of its own, so that it can be killed: `python -m tests.spark.driver MASTER SETTINGS`. It runs
one query after the other, since to start a Spark takes seconds. Each line that comes in is a Query; what it came to is
a line that goes out.

A query copies a topic in batches. Rows are shuffled before they are written, differently each time the query starts.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import headrace.spark
from tests.spark.mortal import MortalSource

TASKS = 2
DONE = "done"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # starts in half the time
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20",  # a task has several tables to write
}


class Query(msgspec.Struct):
    servers: str
    source: str
    target: str
    checkpoint: str
    batch_rows: int
    traps: str
    guarantee: str = "exactly-once"


def run(spark: SparkSession, query: Query) -> None:
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": query.batch_rows}
    rows = headrace.spark.read_stream(spark, query.servers, query.source, **limits)
    shuffled = rows.selectExpr("value", "rand() r").repartition(TASKS, "r").select("value")
    sink = {"servers": query.servers, "topic": query.target, "guarantee": query.guarantee, "sinkTimeout": "20s"}
    writer = shuffled.writeStream.format("mortal").options(**sink, traps=query.traps)
    writer = writer.option("checkpointLocation", query.checkpoint).trigger(availableNow=True)
    writer.start().awaitTermination()


def main(master: str, settings: str) -> None:
    chosen = SETTINGS | json.loads(settings)
    spark = headrace.spark.session("mortal", master, **{name.replace(".", "__"): chosen[name] for name in chosen})
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(MortalSource)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    for line in sys.stdin:
        try:
            run(spark, msgspec.json.decode(line, type=Query))
            print(DONE, file=answers)
        except PySparkException:
            print(json.dumps(traceback.format_exc()), file=answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
