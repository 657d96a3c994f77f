"""A program to whose rows things happen that it is told of by warnings: `python -m tests.spark.mishaps SERVERS FOREIGN
TOPIC FOLDER`. The topic begins at offset 3; FOREIGN is a broker that is not a Headrace."""

from __future__ import annotations

import sys

import headrace.spark
from tests.spark.stumbles import SETTINGS

LOST = {"failOnDataLoss": "false"}


def main(servers: str, foreign: str, topic: str, folder: str) -> None:
    spark = headrace.spark.session("mishaps", "local[2]", **SETTINGS)
    frame = spark.range(7).selectExpr("cast(id as string) value")
    for _ in range(2):
        headrace.spark.write(frame, servers, f"{topic}-repeated", writeId="twice", batchId=4)
    headrace.spark.write(frame, foreign, topic)
    headrace.spark.read(spark, servers, topic, startingOffsets=f'{{"{topic}": {{"0": 1}}}}', **LOST).collect()
    rows = headrace.spark.read_stream(spark, servers, topic, startingOffsets=f'{{"{topic}": {{"0": 2}}}}', **LOST)
    query = rows.writeStream.format("noop").option("checkpointLocation", folder).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
