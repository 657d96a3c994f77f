"""The positions that consumers committed, by topic: a topic that goes takes its own along, whatever others have."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.broker.queues.records import PositionKey, SavedPosition


class Positions:
    __slots__ = ("_count", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, dict[PositionKey, SavedPosition]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[PositionKey, SavedPosition]]:
        for positions in self._topics.values():
            yield from positions.items()

    def get(self, key: PositionKey) -> SavedPosition | None:
        return self._topics.get(key.topic, {}).get(key)

    def put(self, key: PositionKey, position: SavedPosition) -> None:
        positions = self._topics.setdefault(key.topic, {})
        self._count += key not in positions
        positions[key] = position

    def remove(self, key: PositionKey) -> None:
        positions = self._topics.get(key.topic, {})
        if positions.pop(key, None) is not None:
            self._count -= 1
            if not positions:
                del self._topics[key.topic]

    def of(self, topic: str) -> list[PositionKey]:
        return list(self._topics.get(topic, ()))
