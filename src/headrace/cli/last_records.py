"""Where the last N records of each partition begin.

Not every offset is a record that a reader sees: marks that end transactions have one, and so has what compaction took
away, or an aborted transaction wrote. So the last offsets are read and their records counted, and where they are too
few the look goes further back, twice as far each time. It ends at the partition's start, or where nothing was found for
so long that a person would not wait for more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.cli.options import note
from headrace.client.values import TopicPartition

if TYPE_CHECKING:
    from headrace.aio import Client

LEAST_LOOK = 100  # offsets of a further look, so that a few records between many marks do not take many of them
FARTHEST = 1 << 20  # offsets looked through beyond the wanted ones: about a second


class Look:
    """At one partition, from its end backwards: [first, before) is what is looked at next."""

    def __init__(self, where: TopicPartition, start: int, end: int, count: int) -> None:
        self.where, self.first, self.before = where, max(start, end - count), end
        self._start, self._farthest = start, max(start, end - count - FARTHEST)
        self.missing = count
        self.seen: deque[int] = deque(maxlen=count)  # offsets of the records that the look found

    def is_over(self) -> bool:
        """With what the look found. If it goes on, then further back."""
        self.missing -= len(self.seen)
        if not self.missing:
            self.first = self.seen[0]
        if not self.missing or self.first <= self._farthest:
            return True
        size = max(LEAST_LOOK, 2 * (self.before - self.first))
        self.first, self.before = max(self._farthest, self.first - size), self.first
        self.seen = deque(maxlen=self.missing)
        return False

    @property
    def gave_up(self) -> bool:
        return self.missing > 0 and self.first > self._start


async def last_records(
    client: Client, topics: Iterable[str], partitions: Iterable[int] | None, count: int, isolation: str
) -> dict[TopicPartition, int]:
    """Offsets from which on each of these partitions has `count` records, or all of them where it has fewer."""
    chosen = None if partitions is None else set(partitions)
    looks: list[Look] = []
    for topic in topics:
        starts = await client.admin.offsets(topic, "start", isolation)
        for partition, end in (await client.admin.offsets(topic, "end", isolation)).items():
            if chosen is None or partition in chosen:
                where = TopicPartition(topic, partition)
                looks.append(Look(where, starts[partition].offset, end.offset, count))
    left = looks
    while left:
        await _look(client, left, isolation)
        left = [look for look in left if not look.is_over()]
    for look in looks:
        if look.gave_up:
            note(f"{look.where.topic}:{look.where.partition} has fewer records than {count} from {look.first} on.")
    return {look.where: look.first for look in looks}


async def _look(client: Client, looks: list[Look], isolation: str) -> None:
    by_place = {look.where: look for look in looks}
    partitions: dict[str, list[int]] = {}
    for topic, partition in by_place:
        partitions.setdefault(topic, []).append(partition)
    consumer = client.consumer(
        *partitions,
        start={look.where: look.first for look in looks},
        end={look.where: look.before for look in looks},
        partitions=partitions,
        isolation=isolation,
        out_of_range="start",  # retention may be quicker
    )
    async with consumer:
        async for record in consumer:
            by_place[TopicPartition(record.topic, record.partition)].seen.append(record.offset)
