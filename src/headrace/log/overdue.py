"""Logs that have taken in so much since their last snapshot that the next one is due.

The node's tick asks for it, once a second, not the append: a snapshot waits for a sync, and one after every 64 MiB
would be a sync every 60 ms for a log that is written at full speed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.log.appending import Appending


class Overdue:
    __slots__ = ("_logs", "after_bytes")

    def __init__(self, after_bytes: int) -> None:
        self.after_bytes = after_bytes
        self._logs: dict[Appending, None] = {}

    def add(self, log: Appending) -> None:
        self._logs[log] = None

    def tick(self) -> None:
        logs, self._logs = self._logs, {}
        for log in logs:
            if log.failed is None and log.since_snapshot >= self.after_bytes:
                log.checkpoint.request()
