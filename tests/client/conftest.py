"""The two brokers that the client must please: ours, always; Apache Kafka, where java and mvn are."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.servers import Kafka, ServerError
from tests.clients.conftest import REQUIRE, program
from tests.support import serving


@pytest.fixture(scope="session")
def headrace_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("node")) as node:
        yield node.address


@pytest.fixture(scope="session")
def kafka_address() -> Iterator[str]:
    program("java")
    with tempfile.TemporaryDirectory(prefix="headrace-kafka-") as folder:
        server = Kafka(Path(folder))
        # A run that is told to end must take its Kafka along: by default nothing is tidied up then.
        before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
        try:
            server.prepare()
            server.start()
        except ServerError as error:
            if os.environ.get(REQUIRE) == "1":
                pytest.fail(str(error))
            pytest.skip(str(error))
        try:
            yield server.address
        finally:
            server.stop()
            signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session", params=["headrace", "kafka"])
def address(request: pytest.FixtureRequest) -> str:
    """What a test asks for that must hold on both."""
    found: str = request.getfixturevalue(f"{request.param}_address")
    return found


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of the test's own, so that tests may run in any order, and again."""
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in request.node.name)
    return f"{plain[:100]}-{time.time_ns()}"
