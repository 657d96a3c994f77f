"""Every event that the node tells of passes here, and is counted."""

from __future__ import annotations

import threading

from headrace.broker.broker import OnEvent


class Events:
    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._lock = threading.Lock()  # damage is found by threads that read
        self.counts: dict[str, int] = {}

    def event(self, name: str, fields: dict[str, object]) -> None:
        with self._lock:
            self.counts[name] = self.counts.get(name, 0) + 1
        self._on_event(name, fields)
