"""What a topic holds, a page at a time: the last so many, all but the first so many, a stretch, or from a time on.

Several partitions are merged by time; within one, its own order stays. What is asked for ends where the topic ended
when it was asked, so that an answer has an end while others publish. What retention lets go meanwhile is passed over.
The last so many are counted first, and then told: who is slow to take them holds a page, not all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple

from headrace.broker.broker import Broker
from headrace.broker.partition import Partition
from headrace.broker.reading import LAST_RECORDS
from headrace.broker.topic import Topic
from headrace.errors import OffsetOutOfRange
from headrace.records.record import Record
from headrace.wire.lines.commands import History, Range, Since

PAGE_RECORDS = 1000  # read, encoded and sent at a time: milliseconds of the loop
PAGE_BYTES = 256 << 10  # of all partitions together, as long as each has
LEAST_BYTES = 16 << 10  # this much, and a batch at least

Rows = list[tuple[int, Record]]  # each with its partition


class Stretch(NamedTuple):
    partition: Partition
    first: int  # offsets as the log counts
    end: int


async def pages(broker: Broker, topic: Topic, asked: History | Range | Since) -> AsyncIterator[Rows]:
    if isinstance(asked, History):
        skip = -asked.number
        if 0 < asked.number <= LAST_RECORDS:
            found = [await _last(broker, partition, asked.number) for partition in topic.partitions]
            stretches = [stretch for stretch, _ in found]
            skip += sum(count for _, count in found)
        else:
            stretches = [await _whole(partition) for partition in topic.partitions]
            if asked.number > 0:
                skip += await _count(broker, stretches)
        async for rows in _from(broker, stretches, max(0, skip), None):
            yield rows
        return
    stretches = []
    for partition in topic.partitions:
        whole = await _whole(partition)
        if isinstance(asked, Range):
            first, end = max(asked.first - 1, whole.first), min(asked.last, whole.end)
            stretches.append(Stretch(partition, first, end))
        else:
            stretches.append(whole._replace(first=await broker.reading.offset_at(partition, asked.time_ms)))
    async for rows in _from(broker, stretches, 0, asked.limit):
        yield rows


async def _whole(partition: Partition) -> Stretch:
    await partition.opened()
    return Stretch(partition, partition.start_offset, partition.last_stable_offset)


async def _last(broker: Broker, partition: Partition, number: int) -> tuple[Stretch, int]:
    """Its last so many, and how many these are. Looks ever further back: not every offset has a record."""
    whole, back = await _whole(partition), number
    while True:
        first = max(whole.first, whole.end - back)
        offsets: deque[int] = deque(maxlen=number)
        async for records in _read(broker, whole._replace(first=first)):
            offsets.extend(record.offset for record in records)
        if len(offsets) == number or first == whole.first:
            return whole._replace(first=offsets[0] if offsets else whole.end), len(offsets)
        back *= 8


async def _count(broker: Broker, stretches: list[Stretch]) -> int:
    total = 0
    for stretch in stretches:
        async for records in _read(broker, stretch):
            total += len(records)
    return total


async def _from(broker: Broker, stretches: list[Stretch], skip: int, limit: int | None) -> AsyncIterator[Rows]:
    """Without the first `skip`, and at most `limit`."""
    async for rows in _merged(broker, stretches):
        if skip:
            skipped = min(skip, len(rows))
            skip -= skipped
            rows = rows[skipped:]
        if limit is not None:
            rows = rows[:limit]
            limit -= len(rows)
        if rows:
            yield rows
        if limit == 0:
            return


async def _merged(broker: Broker, stretches: list[Stretch]) -> AsyncIterator[Rows]:
    if len(stretches) == 1:
        (stretch,) = stretches
        async for records in _read(broker, stretch):
            yield [(stretch.partition.index, record) for record in records]
        return
    size = max(PAGE_BYTES // len(stretches), LEAST_BYTES)
    sources = {stretch.partition.index: _read(broker, stretch, size) for stretch in stretches}
    heads: dict[int, list[Record]] = {}  # what is read of each partition, the next one last
    for index, source in list(sources.items()):
        heads[index] = (await anext(source, []))[::-1]
    heads = {index: records for index, records in heads.items() if records}
    rows: Rows = []
    while heads:
        index = min(heads, key=lambda index: (heads[index][-1].timestamp_ms, index))
        records = heads[index]
        rows.append((index, records.pop()))
        if not records:
            records += (await anext(sources[index], []))[::-1]
            if not records:
                del heads[index]
        if len(rows) >= PAGE_RECORDS:
            yield rows
            rows = []
    if rows:
        yield rows


async def _read(broker: Broker, stretch: Stretch, max_bytes: int = PAGE_BYTES) -> AsyncIterator[list[Record]]:
    partition, at, end = stretch
    while at < end:
        try:
            page = await broker.reading.page(
                partition, at, max_records=PAGE_RECORDS, max_bytes=max_bytes, to_offset=end
            )
        except OffsetOutOfRange as error:
            if error.start <= at:
                return
            at = error.start
            continue
        if page.records:
            yield page.records
        if page.next_offset <= at:
            return
        at = page.next_offset
