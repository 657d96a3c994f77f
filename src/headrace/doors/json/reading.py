"""The record at an offset: as the log counts, or, less than 0, so many from the end; or a page of a range.

An offset without a record (compaction and transactions leave gaps) gives the next record behind it; one before the
log's start, or behind its end, gives none. Who asks for offsets (`with_offset`) sees where the record was: for them one
before the start gives the first that is kept.

The offsets of a memory topic begin far from 0 (log/memory.py). There one before the start counts from it, so that 0 is
the first message that is kept, 1 the next, as in the list that the original was.
"""

from __future__ import annotations

from collections import deque
from functools import partial

from headrace.broker.broker import Broker
from headrace.broker.partition import Partition
from headrace.broker.ranges import Rows
from headrace.broker.topic import check_readable
from headrace.doors.tcp.door import TcpDoor
from headrace.doors.tcp.paging import Paged, page
from headrace.errors import OffsetOutOfRange
from headrace.records.ids import id_of
from headrace.records.record import Record
from headrace.wire import content
from headrace.wire.json import ranges
from headrace.wire.json.requests import Consume, Refused
from headrace.wire.ranges import Range

COUNTED = 1000  # from the end so many are counted record by record; further back, by offsets


async def find(broker: Broker, request: Consume) -> Record | None:
    check_readable(request.topic)
    topic = broker.topic(request.topic)
    if topic is None or request.partition >= len(topic.partitions):
        return None
    partition = topic.partitions[request.partition]
    try:
        if request.offset < 0:
            return await _from_end(broker, partition, -request.offset)
        if request.with_offset:
            return await _from_start(broker, partition, request.offset)
        offset = request.offset
        if topic.config.is_memory:
            await partition.opened()
            if offset < partition.start_offset:
                offset += partition.start_offset
        return await _at(broker, partition, offset)
    except OffsetOutOfRange:
        return None


async def find_page(door: TcpDoor, request: Range) -> Paged | Refused | None:
    """None: there is no such topic, or partition."""
    check_readable(request.topic)
    topic = door.broker.topic(request.topic)
    count = 0 if topic is None else len(topic.partitions)
    if topic is None or (request.partition is not None and request.partition >= count):
        return None
    if request.partition is None and count > 1 and request.has_offsets:
        return Refused(f"partition is needed with from and to: topic {topic.name!r} has {count} partitions")
    return await page(door, topic, request, partial(_encode, topic.name))


def _encode(topic: str, rows: Rows) -> list[bytes]:
    found = []
    for partition, record in rows:
        name = id_of(topic, partition, record.offset, record.headers)
        value = content.value_of(record)
        found.append(ranges.message(partition, record.offset, name, record.timestamp_ms, value))
    return found


async def _from_start(broker: Broker, partition: Partition, offset: int) -> Record | None:
    """At the offset, or the first that is kept when retention went past it, even while this looks."""
    while True:
        try:
            return await _at(broker, partition, offset)
        except OffsetOutOfRange as error:
            if offset >= error.start:
                return None
            offset = error.start


async def _at(broker: Broker, partition: Partition, offset: int) -> Record | None:
    page = await broker.reading.page(partition, offset, max_records=1)
    return page.records[0] if page.records else None


async def _from_end(broker: Broker, partition: Partition, number: int) -> Record | None:
    await partition.opened()
    start, end = partition.start_offset, partition.last_stable_offset
    if number > COUNTED:
        return await _at(broker, partition, end - number) if end - number >= start else None
    back = number
    while True:  # ever further back: not every offset has a record
        at = max(start, end - back)
        offsets = await _offsets(broker, partition, at, end)
        if len(offsets) >= number:
            return await _at(broker, partition, offsets[-number])
        if at == start:
            return None
        back = 8 * back + COUNTED


async def _offsets(broker: Broker, partition: Partition, at: int, end: int) -> deque[int]:
    """Of the last records before `end`."""
    found: deque[int] = deque(maxlen=COUNTED)
    while at < end:
        page = await broker.reading.page(partition, at, max_records=COUNTED, to_offset=end)
        found.extend(record.offset for record in page.records)
        if page.next_offset <= at:
            break
        at = page.next_offset
    return found
