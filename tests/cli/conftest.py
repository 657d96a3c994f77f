"""What every test of a command needs: a real server, and a way to run a command line as a person would."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.served import ServedBroker
from tests.cli.running import Run
from tests.client.conftest import kafka_address  # noqa: F401  a fixture: Apache Kafka, where java is

TIDY = ("HEADRACE_SERVER", "HEADRACE_CONTEXT", "NO_COLOR", "XDG_CONFIG_HOME")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real broker; one for all tests of a file, so each uses topics of its own."""
    with ServedBroker(tmp_path_factory.mktemp("server")) as broker:
        yield broker.address


@pytest.fixture(autouse=True)
def _nobodys_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the contexts of whoever runs it."""
    for name in TIDY:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def run() -> Run:
    """`run("topic", "list")` with no server named."""
    return Run()


@pytest.fixture
def cli(server: str) -> Run:
    """`cli("topic", "list")` asks the file's own server."""
    return Run(server)


@pytest.fixture(scope="module", params=["headrace", "kafka"])
def any_server(request: pytest.FixtureRequest) -> str:
    """The address of ours, and of Apache Kafka: for what must hold on both."""
    found: str = request.getfixturevalue("server" if request.param == "headrace" else "kafka_address")
    return found


@pytest.fixture
def both(any_server: str) -> Run:
    """`both("group", "list")` asks ours, then Apache Kafka."""
    return Run(any_server)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name of the test's own, for topics, groups and transactional ids."""
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in request.node.name)
    return f"{plain[:60].strip('-')}-{time.time_ns()}"
