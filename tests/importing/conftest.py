"""One real broker for all tests of a file; each test has topics of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.testing import Broker
from tests.cli.running import Run


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def cli(broker: Broker) -> Run:
    return Run(broker.kafka)
