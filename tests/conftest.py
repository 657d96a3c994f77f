"""What every test stands on: hypothesis without deadlines, because the machines that run it are shared; and a Ctrl-C
that arrives, also where whoever started the tests in the background had it ignored, which every process started from
here would inherit; and a name of its own for each test."""

from __future__ import annotations

import signal
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("headrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headrace")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A name of its own for each: schemathesis gives one to those of all routes, and workers run only one of a name."""
    seen: Counter[str] = Counter()
    for item in items:
        name = item.nodeid
        seen[name] += 1
        if seen[name] > 1:
            item._id = f"{name}[{seen[name]}]"  # type: ignore[attr-defined]
    assert len({item.nodeid for item in items}) == len(items), "tests share a name: all but one would not be run"
