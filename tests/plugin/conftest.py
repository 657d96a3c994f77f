"""What the tests of the broker under test share: nothing of it may be left behind, whatever a test did to it."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator

import pytest

LIMIT_S = 5.0  # clients' own threads may take a moment to end


def left() -> tuple[int, list[str]]:
    """Open files and sockets of this process, and its threads."""
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("headrace")]
    return len(os.listdir("/proc/self/fd")), names


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Around all other fixtures: it is asked for first, and so ends last."""
    gc.collect()
    descriptors, _ = left()
    yield
    deadline = time.monotonic() + LIMIT_S
    while (now := left()) > (descriptors, []) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert now[0] <= descriptors, f"{now[0] - descriptors} more descriptors are open than before: {shown()}"
    assert not now[1], f"threads are left: {now[1]}"


def shown() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return sorted(found)
