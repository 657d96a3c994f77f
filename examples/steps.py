"""The steps of pipelines in a query of your own: orders without repeats, and what the best countries bring an hour.

python examples/steps.py 127.0.0.1:9092
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import headrace.spark
from headrace.spark import pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = "id string, country string, amount double, at timestamp"


def run(spark: SparkSession, servers: str) -> None:
    from pyspark.sql.types import StructType  # reads such a text only where there is a session

    schema = StructType.fromDDL(ORDERS).json()
    decoded = {"value.format": "json", "value.schema": schema, "startingOffsets": "earliest"}
    orders = headrace.spark.read_stream(spark, servers, "orders", **decoded).select("value.*")
    best = (
        orders.transform(pipelines.dedup(by=["id"], time="at", within="10 minutes"))
        .transform(pipelines.rollup(time="at", window="1 hour", by=["country"], values={"revenue": "sum(amount)"}))
        .where("revenue > 1000")
    )
    checkpoint = Path("headrace-pipelines", "best").absolute()
    query = headrace.spark.write_stream(best, servers, "orders.best", str(checkpoint), **{"value.format": "json"})
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    run(pipelines.session(), sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
