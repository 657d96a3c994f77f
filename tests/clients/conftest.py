"""One node for all clients: it has only its defaults, as a newcomer's has."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator

import pytest

from tests.support import serving

REQUIRE = "HEADRACE_REQUIRE_CLIENTS"  # set to 1: a client's program that is missing fails its tests


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("node")) as node:
        yield node.address


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of the test's own, so that tests may run in any order, and again."""
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in request.node.name)
    return f"{plain[:100]}-{time.time_ns()}"


def program(name: str) -> str:
    """Where it is; without it the test is skipped, or fails where the clients are required."""
    found = shutil.which(name)
    if found is None:
        words = f"{name} is not installed"
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(words)
        pytest.skip(words)
    return found
