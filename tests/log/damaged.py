"""A log whose bytes were synced, for the tests that damage them."""

from __future__ import annotations

from headrace.errors import DamagedRange
from headrace.log.config import LogConfig
from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.log.log import Log
from headrace.records.codec import decode
from tests.log.kit import World, fill, joined, read_now

PLAIN = LogConfig(segment_bytes=1 << 20, index_interval_bytes=400, tail_bytes=0)
SMALL = LogConfig(segment_bytes=1024, index_interval_bytes=300, tail_bytes=0)
SIZE = 177  # of one batch that `fill` makes


def path(world: World, base: int = 0, ending: str = ".log") -> str:
    return f"{world.folder()}/{base:020d}{ending}"


def position(number: int) -> int:
    return SEGMENT_HEADER_BYTES + number * SIZE


def surviving(log: Log) -> list[int]:
    """The offsets that can be read, the way a consumer does who skips what is damaged."""
    found, offset = [], log.start_offset
    while offset < log.written_offset:
        try:
            result = read_now(log, offset, 400)
        except DamagedRange as damage:
            offset = damage.next_offset
            continue
        found += [record.offset for record in decode(joined(result))]
        offset = result.next_offset
    return found


def synced_world(count: int = 20, config: LogConfig = PLAIN) -> tuple[World, list[bytes]]:
    world = World()
    log = world.log(config=config)
    written = fill(log, count)
    assert world.sync(log) is None
    return world, written
