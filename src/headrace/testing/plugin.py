"""The pytest plugin: a real broker as a fixture.

| fixture | gives |
|---|---|
| `headrace_broker` | a fresh broker for one test |
| `headrace_broker_module`, `headrace_broker_session` | one for all tests of a module, of a run (of each xdist worker) |
| `headrace_broker_factory` | `factory(...)` makes as many as a test needs, as `headrace.testing.Broker` takes them |

`@pytest.mark.headrace(storage="disk", ...)` on a test, a class or a module says what kind of broker the first two are;
`headrace_storage` in pytest's configuration file says where logs are kept when nobody says.

pytest loads this module in every project that has Headrace installed: it imports nothing but pytest, and the broker
only when a fixture is asked for. When a test fails, what its brokers said is shown with the report.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from headrace.testing.broker import Broker

MARK = "headrace"
MARK_HELP = (
    f'{MARK}(storage="memory"|"disk", seed=N, topics=..., **settings): what kind of broker headrace_broker is; takes'
    " what headrace.testing.Broker takes"
)
STORAGE = "headrace_storage"
_BEGAN = pytest.StashKey[float]()


class BrokerFactory(Protocol):
    def __call__(self, storage: str = ..., **options: Any) -> Broker: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(STORAGE, 'where brokers under test keep their logs: "memory" or "disk"', default="memory")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK_HELP)


@pytest.fixture
def headrace_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A real broker of this test alone: `.kafka` is its address."""
    yield from _serve(request, request.node)


@pytest.fixture(scope="module")
def headrace_broker_module(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A real broker for all tests of the module."""
    yield from _serve(request, request.node)


@pytest.fixture(scope="session")
def headrace_broker_session(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A real broker for the whole run."""
    yield from _serve(request, None)


@pytest.fixture
def headrace_broker_factory(request: pytest.FixtureRequest) -> Iterator[BrokerFactory]:
    """Makes started brokers; all are closed at the end of the test."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def make(storage: str = "", **options: Any) -> Broker:
            return stack.enter_context(_broker(request, {"storage": storage or None, **options}))

        yield make


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGAN] = time.monotonic()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    events = sys.modules.get("headrace.testing.events")
    if report.failed and events is not None and _BEGAN in item.stash:
        report.sections += events.report(item.stash[_BEGAN])


def _serve(request: pytest.FixtureRequest, node: Any) -> Iterator[Broker]:
    marks = list(node.iter_markers(MARK)) if node is not None else []
    options: dict[str, Any] = {}
    for mark in reversed(marks):  # the closest has the last word
        if mark.args:
            raise pytest.UsageError(f"@pytest.mark.{MARK} takes names with values only: storage={mark.args[0]!r}?")
        options |= mark.kwargs
    with _broker(request, options) as broker:
        yield broker


def _broker(request: pytest.FixtureRequest, options: dict[str, Any]) -> Broker:
    from headrace.testing.broker import Broker

    given = {name: value for name, value in options.items() if value is not None}
    given.setdefault("storage", request.config.getini(STORAGE))
    # Another for each test, and the same whenever it is run again.
    given.setdefault("seed", zlib.crc32(request.node.nodeid.encode()))
    return Broker(**given)
