"""What queues count, and what they may hold together."""

from __future__ import annotations

from headrace.broker.queues.settings import NODE_BYTES


class Budget:
    """Bytes in memory of all queues of a node."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int = NODE_BYTES) -> None:
        self.limit, self.used = limit, 0


class Counts:
    """What has happened since the start."""

    __slots__ = (
        "acknowledged",
        "dead",
        "delivered",
        "dropped",
        "lost",
        "redelivered",
        "rejected",
        "released",
        "timed_out",
    )

    def __init__(self) -> None:
        self.delivered = self.redelivered = self.acknowledged = self.released = self.timed_out = 0
        self.rejected = self.dead = self.dropped = self.lost = 0

    def add(self, other: Counts) -> None:
        for what in self.__slots__:
            setattr(self, what, getattr(self, what) + getattr(other, what))
