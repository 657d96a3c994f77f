"""What brokers under test have said lately, kept for whoever wants to know why a test failed.

Bounded twice: so many events of one broker, so many brokers. A broker that was stopped inside of the failed test is
still here.
"""

from __future__ import annotations

import time
from collections import deque
from datetime import UTC, datetime
from typing import NamedTuple

EVENTS_KEPT = 200  # of one broker: the last seconds of a busy one, the whole life of most
BROKERS_KEPT = 32  # in one process, running or not
FAULT = "node.fault"


class Event(NamedTuple):
    time_ms: int  # by the broker's own clock
    name: str
    fields: dict[str, object]

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
        return f"{at} {self.name} " + " ".join(f"{key}={value}" for key, value in self.fields.items())


class Events:
    def __init__(self, title: str) -> None:
        self.title = title
        self.ended_at = float("inf")
        self._kept: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self.faults: list[Event] = []
        RECENT.append(self)

    def add(self, event: Event) -> None:
        self._kept.append(event)
        if event.name == FAULT and len(self.faults) < EVENTS_KEPT:
            self.faults.append(event)

    def all(self) -> list[Event]:
        return list(self._kept.copy())

    def end(self) -> None:
        self.ended_at = time.monotonic()


RECENT: deque[Events] = deque(maxlen=BROKERS_KEPT)


def report(since: float) -> list[tuple[str, str]]:
    """Title and text of each broker that ran at `since` (monotonic) or later, and said something."""
    return [
        (events.title, "\n".join(map(str, events.all())))
        for events in RECENT.copy()
        if events.ended_at >= since and events.all()
    ]
