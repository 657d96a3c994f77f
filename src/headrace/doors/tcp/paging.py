"""A page of a range of records, for doors on plain TCP: read and encoded in slices, with other connections' turns
between them, and cut at its records or its bytes, whichever come first. It has one record at least, if there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from headrace.broker.ranges import RangeRead, Rows, newest
from headrace.broker.topic import Topic
from headrace.doors.tcp.door import TcpDoor
from headrace.wire.ranges import Place, Range

MAX_RECORDS = 10_000  # of a page: who wants more asks for the next
PAGE_BYTES = 1 << 20  # of a page, as it is sent
NEWEST_BYTES = 8 << 20  # of an answer to `last`: there is no page after it
SLICE_RECORDS, SLICE_BYTES = 500, 64 << 10  # encoded in one go: some milliseconds at worst

Encode = Callable[[Rows], list[bytes]]


class Paged(NamedTuple):
    pieces: list[bytes]  # one for each record
    next_place: Place | None


async def page(door: TcpDoor, topic: Topic, asked: Range, encode: Encode) -> Paged:
    """`encode`: a piece for each record. While it is made, it counts among what clients have not taken."""
    unsent = door.unsent
    size = max(1, unsent.room(PAGE_BYTES if asked.last is None else NEWEST_BYTES))
    unsent.reading_bytes += size
    try:
        if asked.last is None:
            return await _page(RangeRead(door.broker, topic, asked), min(asked.limit, MAX_RECORDS), size, encode)
        return await _newest(await newest(door.broker, topic, asked, size), encode)
    finally:
        unsent.reading_bytes -= size


async def _page(read: RangeRead, most: int, size: int, encode: Encode) -> Paged:
    pieces: list[bytes] = []
    while len(pieces) < most and size > 0:
        rows = await read.more(min(SLICE_RECORDS, most - len(pieces)), min(SLICE_BYTES, size))
        if not rows:
            break
        encoded = encode(rows)
        pieces += encoded
        size -= sum(map(len, encoded))
        await asyncio.sleep(0)
    return Paged(pieces, read.place)


async def _newest(rows: Rows, encode: Encode) -> Paged:
    pieces: list[bytes] = []
    for first in range(0, len(rows), SLICE_RECORDS):
        pieces += encode(rows[first : first + SLICE_RECORDS])
        await asyncio.sleep(0)
    return Paged(pieces, None)
