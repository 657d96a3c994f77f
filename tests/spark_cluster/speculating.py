"""A program whose tasks run twice by Spark's speculation: `python speculating.py MASTER SERVERS FOLDER`.

The first attempt of one task waits until the second, which Spark starts because the first takes so long, has begun too:
then both write, side by side. Which attempts there were is told as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from headrace.spark.pipelines.session import session
from tests.spark_cluster.job import SETTINGS

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}
ROWS, TASKS = 20_000, 4
WAIT_S = 60.0


def twice(frame: DataFrame, folder: Path) -> DataFrame:
    """The same rows; the first task's attempts leave a mark each."""
    folder.mkdir()
    marks = str(folder)

    def attempt(tables: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 0:
            open(f"{marks}/{context.attemptNumber()}", "w").close()
            deadline = time.monotonic() + WAIT_S
            while len(os.listdir(marks)) < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
        yield from tables

    return frame.mapInArrow(attempt, frame.schema)


def main(master: str, servers: str, given: str) -> None:
    folder = Path(given)
    spark = session("speculating", master, {**SETTINGS, **SPECULATION, **json.loads(os.environ["MORE"])})
    try:
        made = spark.range(0, ROWS, 1, TASKS).selectExpr("cast(id as string) key", "concat('made ', id) value")
        target = {"servers": servers, "topic": "batch"}
        twice(made, folder / "batch").write.format("headrace").mode("append").options(**target).save()
        asked = {"servers": servers, "subscribe": "batch", "startingOffsets": "earliest", "minPartitions": str(TASKS)}
        read = spark.readStream.format("headrace").options(**asked).load().select("key", "value")
        writer = twice(read, folder / "stream").writeStream.format("headrace").options(servers=servers, topic="stream")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        print(json.dumps({name: sorted(os.listdir(folder / name)) for name in ("batch", "stream")}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
