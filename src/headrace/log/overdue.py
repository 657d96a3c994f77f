"""Logs that have taken in so much since their last snapshot that the next one is due.

The node's tick asks for it, not the append: a snapshot waits for a sync, and one after every 64 MiB would be a sync
every 60 ms for a log that is written at full speed. So there is a pause between two of a log, and what was overdue at
the end of a burst is written though nothing comes any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.ports import Clock

if TYPE_CHECKING:
    from headrace.log.appending import Appending


class Overdue:
    __slots__ = ("_clock", "_logs", "_pause_ms", "after_bytes")

    def __init__(self, clock: Clock, after_bytes: int, pause_ms: int) -> None:
        self._clock, self._pause_ms = clock, pause_ms
        self.after_bytes = after_bytes
        self._logs: dict[Appending, None] = {}

    def add(self, log: Appending) -> None:
        self._logs[log] = None

    def tick(self) -> None:
        now_ms = self._clock.now_ms()
        for log in tuple(self._logs):
            if 0 <= now_ms - log.snapshot_at_ms < self._pause_ms:  # a clock that was set back puts none off
                continue
            del self._logs[log]
            if log.failed is None and log.since_snapshot >= self.after_bytes:
                log.checkpoint.request()
