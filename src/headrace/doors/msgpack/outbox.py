"""What waits for one slow subscriber: when it is too much, the oldest is dropped and counted. What all subscribers of
the door have waiting is bounded too, and then it is whoever wants to add that loses.
"""

from __future__ import annotations

from collections import deque

from headrace.doors.msgpack.limits import ALL_WAITING_BYTES, WAITING_BYTES


class Waiting:
    """Bytes that wait for all subscribers of a door."""

    __slots__ = ("size_bytes",)

    def __init__(self) -> None:
        self.size_bytes = 0


class Outbox:
    __slots__ = ("_all", "_chunks", "size_bytes")

    def __init__(self, all_waiting: Waiting) -> None:
        self._all = all_waiting
        self._chunks: deque[tuple[bytes, int]] = deque()  # and how many deliveries each holds
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._chunks)

    def put(self, chunk: bytes, count: int) -> int:
        """How many deliveries were dropped for it."""
        self._chunks.append((chunk, count))
        self._grow(len(chunk))
        lost = 0
        while len(self._chunks) > 1 and (self.size_bytes > WAITING_BYTES or self._all.size_bytes > ALL_WAITING_BYTES):
            lost += self.take()[1]
        return lost

    def take(self) -> tuple[bytes, int]:
        """The oldest."""
        chunk, count = self._chunks.popleft()
        self._grow(-len(chunk))
        return chunk, count

    def clear(self) -> None:
        self._chunks.clear()
        self._grow(-self.size_bytes)

    def _grow(self, by_bytes: int) -> None:
        self.size_bytes += by_bytes
        self._all.size_bytes += by_bytes
