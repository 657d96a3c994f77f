"""A day of the archive to a topic, as replay.toml says it, from Python.

python examples/replay.py 127.0.0.1:9092
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.spark import pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = {
    "name": "orders-again",
    "replay": {
        "path": "archive/orders",
        "time": "at",
        "since": "2026-01-31T00:00:00Z",
        "until": "2026-02-01T00:00:00Z",
        "rate": 1000,
    },
    "target": {
        "topic": "orders.again",
        "key": "id",
    },
}


def run(spark: SparkSession, servers: str) -> pipelines.Report:
    """Works through what is there, and ends; the next call goes on from there."""
    return pipelines.run(spark, pipelines.settings_of({**PIPELINE, "servers": servers}))


if __name__ == "__main__":
    print(run(pipelines.session(), sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092").line)
