"""One Spark for all tests, as a newcomer starts it: it must find the format by itself. Two cores, a
small heap, and tasks that fail run again, as on a cluster."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headrace.spark.jars import delta_settings
from tests.client.conftest import kafka_address  # noqa: F401 (a fixture)
from tests.clients.conftest import program
from tests.support import serving

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # half the CPU of short runs
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
    "spark.ui.showConsoleProgress": "false",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    program("java")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2,3]").config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
    delta = delta_settings() if shutil.which("mvn") is not None else {}  # tests of Delta ask for it themselves
    for name, value in {**SETTINGS, **delta}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def headrace_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("node")) as node:
        yield node.address


@pytest.fixture(scope="session", params=["headrace", "kafka"])
def address(request: pytest.FixtureRequest) -> str:
    """What a test asks for that must hold on both."""
    found: str = request.getfixturevalue(f"{request.param}_address")
    return found


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of the test's own, so that tests may run in any order, and again."""
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in request.node.name)
    return f"{plain[:60]}-{time.time_ns()}"
