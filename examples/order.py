"""Orders in the order of their times, as order.toml says it, from Python.

python examples/order.py 127.0.0.1:9092
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.spark import pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = {
    "name": "orders-in-order",
    "source": {
        "topic": "orders",
        "format": "json",
        "schema": "id string, country string, amount double, at timestamp",
    },
    "order": {
        "time": "at",
        "late": "10 seconds",
        "by": ["country"],
    },
    "target": {
        "topic": "orders.in-order",
        "key": "country",
    },
}


def run(spark: SparkSession, servers: str) -> pipelines.Report:
    """Works through what is there, and ends; the next call goes on from there."""
    return pipelines.run(spark, pipelines.settings_of({**PIPELINE, "servers": servers}))


if __name__ == "__main__":
    print(run(pipelines.session(), sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092").line)
