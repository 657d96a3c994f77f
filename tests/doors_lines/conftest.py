"""`lines`: the address of a lines door. One node for a file of tests: each test has topics of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.testing.broker import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as found:
        yield found


@pytest.fixture
def lines(broker: Broker) -> str:
    return broker.addresses["lines"]
