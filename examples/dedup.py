"""Orders once by their id, as dedup.toml says it, from Python.

python examples/dedup.py 127.0.0.1:9092
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.spark import pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = {
    "name": "orders-once",
    "source": {
        "topic": "orders",
        "format": "json",
        "schema": "id string, country string, amount double, at timestamp",
    },
    "dedup": {
        "by": ["id"],
        "time": "at",
        "within": "10 minutes",
    },
    "target": {
        "topic": "orders.once",
        "key": "id",
    },
}


def run(spark: SparkSession, servers: str) -> pipelines.Report:
    """Works through what is there, and ends; the next call goes on from there."""
    return pipelines.run(spark, pipelines.settings_of({**PIPELINE, "servers": servers}))


if __name__ == "__main__":
    print(run(pipelines.session(), sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092").line)
