"""Ranges of a topic's records: one partition after the other, each from an offset or a time on, up to another.

- What is read is committed, as with every range read (reading.py). Gaps are stepped over.
- The end is where the topic ends when a partition is come to; who goes on from the place of the last page gets what
  came since.
- What retention takes meanwhile is passed over: the range goes on with the first record that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.broker.page_read import Page
from headrace.broker.partition import Partition
from headrace.broker.reading import size_of
from headrace.errors import OffsetOutOfRange
from headrace.records.record import Record
from headrace.wire.ranges import Place, Range

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.topic import Topic

FEW_BYTES, RECORD_BYTES = 4 << 10, 1 << 10

Rows = list[tuple[int, Record]]  # each with its partition


class RangeRead:
    """One page of a range or more, a slice at a time."""

    def __init__(self, broker: Broker, topic: Topic, asked: Range) -> None:
        self._reading, self._bounds = broker.reading, asked.bounds
        self._partitions: Sequence[Partition] = (
            topic.partitions if asked.partition is None else [topic.partitions[asked.partition]]
        )
        self._number, self._at = 0, 0
        self._end: int | None = None  # of the partition's part; None: not looked at yet
        start = asked.page
        if start is not None:
            self._number = sum(partition.index < start.partition for partition in self._partitions)
            if self._number < len(self._partitions) and self._partition.index == start.partition:
                self._at = start.offset

    @property
    def _partition(self) -> Partition:
        return self._partitions[self._number]

    @property
    def place(self) -> Place | None:
        """Where it goes on; None: it is at its end."""
        return None if self._number == len(self._partitions) else Place(self._partition.index, self._at)

    async def more(self, max_records: int, max_bytes: int) -> Rows:
        """The next records, at least one; none at the end."""
        while self._number < len(self._partitions):
            partition = self._partition
            if self._end is None:
                self._at, self._end = await self._ends(partition)
            page = await self._page(partition, self._at, self._end, max_records, max_bytes)
            self._at = page.next_offset
            if self._at >= self._end:
                self._number, self._at, self._end = self._number + 1, 0, None
            if page.records:
                return [(partition.index, record) for record in page.records]
        return []

    async def _ends(self, partition: Partition) -> tuple[int, int]:
        bounds = self._bounds
        await partition.opened()
        at, end = max(partition.start_offset, self._at), partition.last_stable_offset
        if bounds.from_offset is not None:
            at = max(at, bounds.from_offset)
        if bounds.since_ms is not None:
            at = max(at, await self._reading.offset_at(partition, bounds.since_ms))
        if bounds.to_offset is not None:
            end = min(end, bounds.to_offset)
        if bounds.until_ms is not None:
            end = min(end, await self._reading.offset_at(partition, bounds.until_ms))
        return at, end

    async def _page(self, partition: Partition, at: int, end: int, max_records: int, max_bytes: int) -> Page:
        if at >= end:
            return Page([], end, end)
        wish = min(max_bytes, likely_bytes(max_records))
        try:
            page = await self._reading.page(partition, at, max_records=max_records, max_bytes=wish, to_offset=end)
        except OffsetOutOfRange as error:  # retention went past it, or a recovery cut the end off
            return Page([], error.start if error.start > at else end, end)
        return fitting(page, max_bytes) if page.next_offset > at else Page([], end, end)


async def newest(broker: Broker, topic: Topic, asked: Range, max_bytes: int) -> Rows:
    """The last `asked.last`, oldest first; as many of them as have so many bytes, one at least."""
    return await broker.reading.last(topic, asked.last or 0, asked.partition, max_bytes)


def likely_bytes(records: int) -> int:
    """Of batches with so many records. Who wants one record is not to wait until a megabyte is decoded; who finds that
    it was too little reads on."""
    return FEW_BYTES + RECORD_BYTES * records


def fitting(page: Page, size: int) -> Page:
    """As much of it as has so many bytes, one record at least: a batch may unpack to much more than it was."""
    for place, record in enumerate(page.records):
        size -= size_of(record)
        if size < 0 and place:
            return Page(page.records[:place], record.offset, page.end_offset)
    return page
