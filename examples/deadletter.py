"""Orders that fail a check set aside, as deadletter.toml says it, from Python.

python examples/deadletter.py 127.0.0.1:9092
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.spark import pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = {
    "name": "orders-checked",
    "source": {
        "topic": "orders",
        "format": "json",
        "schema": "id string, country string, amount double, at timestamp",
    },
    "deadletter": {
        "topic": "orders.bad",
        "checks": {
            "amount is not positive": "amount > 0",
            "no id": "id is not null",
        },
    },
    "target": {
        "topic": "orders.checked",
        "key": "id",
    },
}


def run(spark: SparkSession, servers: str) -> pipelines.Report:
    """Works through what is there, and ends; the next call goes on from there."""
    return pipelines.run(spark, pipelines.settings_of({**PIPELINE, "servers": servers}))


if __name__ == "__main__":
    print(run(pipelines.session(), sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092").line)
