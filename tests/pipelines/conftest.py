"""One Spark and one node for all tests of pipelines; the fixtures are those of the source's tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
import headrace.spark
from headrace.spark import pipelines
from headrace.spark.pipelines.session import PLAIN
from tests.client.conftest import kafka_address  # noqa: F401 (a fixture)
from tests.spark.conftest import headrace_address, spark, topic  # noqa: F401 (fixtures)

BEGAN = datetime(2026, 1, 31, tzinfo=UTC)
SCHEMA = "id string, country string, amount double, at timestamp"


@pytest.fixture(scope="session")
def piping(spark: SparkSession) -> Iterator[SparkSession]:  # noqa: F811
    """The session with what pipelines want of it."""
    for name in ("spark.sql.session.timeZone", "spark.sql.streaming.stateStore.providerClass"):
        spark.conf.set(name, PLAIN[name])
    headrace.spark.register(spark)
    return spark


def order_at(second: float, number: int, country: str = "ch") -> bytes:
    at = BEGAN + timedelta(seconds=second)
    order = {"id": str(number), "country": country, "amount": float(number), "at": at.isoformat()}
    return json.dumps(order).encode()


def send(address: str, topic: str, values: list[bytes]) -> None:  # noqa: F811
    with headrace.connect(address) as client, client.producer() as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush()


Run = Callable[..., pipelines.Report]


@pytest.fixture
def run(piping: SparkSession, headrace_address: str, topic: str, tmp_path: Path) -> Run:  # noqa: F811
    """Runs a pipeline of the test's own over its topic, in its folder; again goes on where it was."""

    def go(name: str = "p", **sections: Any) -> pipelines.Report:
        source = {"topic": topic, "format": "json", "schema": SCHEMA}
        sections = {"source": source | sections.pop("source", {}), **sections} if "replay" not in sections else sections
        tree = {"name": name, "servers": headrace_address, "folder": str(tmp_path / name), **sections}
        return pipelines.run(piping, pipelines.settings_of(tree), lambda _: None)

    return go
