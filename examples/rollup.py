"""Orders a minute by country, as rollup.toml says it, from Python.

python examples/rollup.py 127.0.0.1:9092
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.spark import pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = {
    "name": "orders-per-minute",
    "source": {
        "topic": "orders",
        "format": "json",
        "schema": "id string, country string, amount double, at timestamp",
    },
    "rollup": {
        "time": "at",
        "window": "1 minute",
        "late": "10 minutes",
        "by": ["country"],
        "values": {
            "orders": "count",
            "revenue": "sum(amount)",
            "p95": "quantile(amount, 0.95)",
            "ids": "distinct(id)",
        },
    },
    "target": {
        "topic": "orders.per-minute",
        "key": "country",
    },
}


def run(spark: SparkSession, servers: str) -> pipelines.Report:
    """Works through what is there, and ends; the next call goes on from there."""
    return pipelines.run(spark, pipelines.settings_of({**PIPELINE, "servers": servers}))


if __name__ == "__main__":
    print(run(pipelines.session(), sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092").line)
