"""A member of a queue, as its door sees it: what it takes, and what it says of what it took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.broker.queues.events import Acknowledge, Delivery, Leave, Place, Reject, Release, Renew, Resume
from headrace.log.config import Done

if TYPE_CHECKING:
    from headrace.broker.queues.queue import Queue


class QueueMember(Protocol):
    """What a door has to bring."""

    def take(self, deliveries: Sequence[Delivery]) -> bool:
        """It has them now. False: and no more, until it calls `resume`."""
        ...


class Membership:
    """Places are (partition, offset). Only what the member holds counts: of what was given to another meanwhile, or is
    settled, nothing happens, and the number that is answered is smaller. `done(None)` comes when it is kept for good,
    `done(error)` when that is not known: it is tried on. Never before the call returns."""

    __slots__ = ("_queue", "name", "number", "taker")

    def __init__(self, queue: Queue, number: int, name: str, taker: QueueMember) -> None:
        self._queue, self.number, self.name, self.taker = queue, number, name, taker

    def acknowledge(self, places: Sequence[Place], done: Done | None = None) -> int:
        """Done with them: nobody gets them again."""
        return self._queue.step(Acknowledge(self.number, places, done))

    def release(self, places: Sequence[Place], done: Done | None = None) -> int:
        """Somebody is to try again, after the queue's backoff; the attempt counts."""
        return self._queue.step(Release(self.number, places, done))

    def reject(self, places: Sequence[Place], reason: str = "rejected", done: Done | None = None) -> int:
        """Nobody is to try again: to the dead-letter topic."""
        return self._queue.step(Reject(self.number, places, reason or "rejected", done))

    def renew(self, places: Sequence[Place]) -> int:
        """The time for them begins anew."""
        return self._queue.step(Renew(self.number, places))

    def resume(self) -> None:
        """It has room again."""
        self._queue.step(Resume(self.number))

    def leave(self) -> None:
        """What it holds goes to others, at once. Leaving twice is no error."""
        self._queue.left(self.number)
        self._queue.step(Leave(self.number))
