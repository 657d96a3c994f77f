"""The positions of one group: for each partition the offset that is read next, as the last commit said.

A transaction's positions wait beside them until it ends: committed, each replaces the position that is there, unless
that was written later in the log; aborted, they are dropped. Whoever wants only settled positions is told where one
waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from headrace.broker.groups.sizes import CHARACTER_BYTES

NEVER = -1  # a position without an end of its own


class Position(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_ms: int = 0
    expires_ms: int = NEVER


Place = tuple[str, int]  # topic, partition
Commit = tuple[str, int, Position]


class _Written(NamedTuple):
    position: Position
    at: int  # its offset in the log of positions


class Tally:
    """How much all positions of a node are, those that wait included."""

    __slots__ = ("count", "text_bytes")

    def __init__(self) -> None:
        self.count = self.text_bytes = 0

    def add(self, position: Position, sign: int = 1) -> None:
        self.count += sign
        self.text_bytes += sign * len(position.metadata) * CHARACTER_BYTES


class Positions:
    def __init__(self) -> None:
        self._tally = Tally()
        self._topics: dict[str, dict[int, _Written]] = {}
        self._pending: dict[int, dict[Place, _Written]] = {}  # by producer

    def __bool__(self) -> bool:
        return bool(self._topics or self._pending)

    def __iter__(self) -> Iterator[Commit]:
        for topic, partitions in self._topics.items():
            for partition, written in partitions.items():
                yield topic, partition, written.position

    def topics(self) -> list[tuple[str, list[int]]]:
        return [(topic, list(partitions)) for topic, partitions in self._topics.items()]

    def get(self, topic: str, partition: int) -> Position | None:
        partitions = self._topics.get(topic)
        written = None if partitions is None else partitions.get(partition)
        return None if written is None else written.position

    def count_in(self, tally: Tally) -> None:
        """From now on they are part of this one."""
        tally.count += self._tally.count
        tally.text_bytes += self._tally.text_bytes
        self._tally = tally

    def put(self, topic: str, partition: int, position: Position, at: int) -> None:
        partitions = self._topics.get(topic)
        if partitions is None:
            partitions = self._topics[topic] = {}
        known = partitions.get(partition)
        if known is None or known.position.metadata != position.metadata:
            self._replaced(known, position)
        partitions[partition] = _Written(position, at)

    def _replaced(self, known: _Written | None, position: Position) -> None:
        if known is not None:
            self._tally.add(known.position, -1)
        self._tally.add(position)

    def names(self) -> set[str]:
        """Of topics, also of those whose positions wait."""
        return {*self._topics, *(topic for pending in self._pending.values() for topic, _ in pending)}

    def places(self, topic: str) -> list[Place]:
        """Also those that wait."""
        found = dict.fromkeys((topic, partition) for partition in self._topics.get(topic, ()))
        for pending in self._pending.values():
            found |= dict.fromkeys(place for place in pending if place[0] == topic)
        return list(found)

    def remove(self, topic: str, partition: int) -> None:
        """With what waits for its place."""
        for pending in self._pending.values():
            if (waiting := pending.pop((topic, partition), None)) is not None:
                self._tally.add(waiting.position, -1)
        partitions = self._topics.get(topic)
        if partitions is not None and (known := partitions.pop(partition, None)) is not None:
            self._tally.add(known.position, -1)
            if not partitions:
                del self._topics[topic]

    # Transactions

    def pend(self, producer_id: int, commits: Sequence[Commit], at: int) -> None:
        pending = self._pending.setdefault(producer_id, {})
        for topic, partition, position in commits:
            self._replaced(pending.get((topic, partition)), position)
            pending[topic, partition] = _Written(position, at)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        for (topic, partition), written in self._pending.pop(producer_id, {}).items():
            self._tally.add(written.position, -1)
            if committed:
                known = self._topics.get(topic, {}).get(partition)
                if known is None or known.at < written.at:
                    self.put(topic, partition, written.position, written.at)

    def is_pending(self, topic: str, partition: int) -> bool:
        return any((topic, partition) in pending for pending in self._pending.values())

    # Retention

    def expired(self, is_over: Callable[[str, Position], bool]) -> list[Place]:
        """Those that may go: over, and no transaction is about to move them."""
        return [
            (topic, partition)
            for topic, partition, position in self
            if is_over(topic, position) and not (self._pending and self.is_pending(topic, partition))
        ]
