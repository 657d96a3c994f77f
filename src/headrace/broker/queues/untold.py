"""What happened to a queue's records that people should know, told now and then: a flood of poison is one event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.queues.records import QueueKey
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


class Untold:
    def __init__(self, broker: Broker, key: QueueKey) -> None:
        self._broker, self._key = broker, key
        self.dead = self.given_up = self.lost = 0
        self._reason = ""
        self._is_refused = False  # and that was told

    def dropped(self, reason: str) -> None:
        self.given_up += 1
        self._reason = reason

    def buried(self, dead_letter: str | None, reason: str, error: HeadraceError | None) -> None:
        if error is None:
            self.dead += 1
            self._reason, self._is_refused = reason, False
        elif not self._is_refused:
            self._is_refused = True
            self._event("queue.not-buried", {"dead_letter": dead_letter, "error": str(error)})

    def tell(self, dead_letter: str | None) -> None:
        if self.dead:
            self._event("queue.dead", {"dead_letter": dead_letter, "records": self.dead, "reason": self._reason})
        if self.given_up:
            self._event("queue.dropped", {"records": self.given_up, "reason": self._reason})
        if self.lost:
            self._event("queue.lost", {"records": self.lost})
        self.dead = self.given_up = self.lost = 0

    def _event(self, kind: str, details: dict[str, object]) -> None:
        self._broker.on_event(kind, {**self._key._asdict(), **details})
