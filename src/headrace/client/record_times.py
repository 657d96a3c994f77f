"""The time of the record at an offset, of many partitions at once.

ListOffsets goes from times to offsets; nothing in the protocol goes back but a Fetch. The first asks for one byte: a
broker gives at least one whole batch, and no more. Where that holds no record, the next ask for more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from headrace.client import raw
from headrace.client.asking import Asking
from headrace.client.fetched import Chunk
from headrace.client.values import TopicPartition
from headrace.errors import OffsetOutOfRange

AT_ONCE: Final = 32  # partitions that are asked at the same time
ONE_BATCH_BYTES: Final = 1
MORE_BYTES: Final = 64 << 10  # hundreds of markers
MOST_EMPTY: Final = 100  # answers without records (markers, what compaction left) that are stepped over
NOT_FOUND: Final = -1


async def record_times(asking: Asking, offsets: Mapping[tuple[str, int], int]) -> dict[TopicPartition, int]:
    """In milliseconds, of the first record at the offset or after it; partitions that have none are left out.
    NOT_FOUND: none was found within reach."""
    room = asyncio.Semaphore(AT_ONCE)
    found: dict[TopicPartition, int] = {}

    async def one(topic: str, partition: int, offset: int) -> None:
        async with room:
            time_ms = await _time_at(asking, topic, partition, offset)
        if time_ms is not None:
            found[TopicPartition(topic, partition)] = time_ms

    for topic in {topic for topic, _ in offsets}:
        await asking.metadata.topic(topic)
    async with asyncio.TaskGroup() as tasks:
        for (topic, partition), offset in offsets.items():
            tasks.create_task(one(topic, partition, offset))
    return found


async def _time_at(asking: Asking, topic: str, partition: int, offset: int) -> int | None:
    for turn in range(MOST_EMPTY):
        try:
            fetched = await raw.fetch(asking, topic, partition, offset, MORE_BYTES if turn else ONE_BATCH_BYTES)
        except OffsetOutOfRange as error:
            if offset >= error.start:  # the log was cut since
                return None
            offset = error.start  # what was there is gone: the oldest that is left
            continue
        chunk = Chunk((fetched.pieces or (b"",))[0], offset, None)
        if chunk.is_empty:
            return None
        while not chunk.is_empty:
            records, offset, _ = chunk.next(topic, partition, offset, None)
            if records:
                return records[0].timestamp_ms
    return NOT_FOUND
