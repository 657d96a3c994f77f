"""Logs without a disk: rings that share a budget."""

from __future__ import annotations

import pytest

from headrace.errors import OffsetOutOfRange
from headrace.log.config import LogConfig, StoreLimits
from headrace.log.memory import MemoryLog
from headrace.records.codec import decode
from tests.log.kit import START_MS, World, append, batch, joined

LIMIT_BYTES = 1 << 20
FOREVER = LogConfig(retention_bytes=1 << 60)


@pytest.fixture
def world() -> World:
    return World(limits=StoreLimits(memory_topics_bytes=LIMIT_BYTES))


def fill(log: MemoryLog, count: int, size: int = 40_000) -> None:
    for _ in range(count):
        append(log, batch(b"x" * size))


def held(*logs: MemoryLog) -> int:
    return sum(log.size_bytes for log in logs)


def test_the_ring_of_one_is_at_most_the_budget(world):
    log = world.store.open_memory_log(FOREVER)
    fill(log, 100)
    assert LIMIT_BYTES // 2 < held(log) <= LIMIT_BYTES
    log.configure(LogConfig(retention_bytes=1 << 50))
    fill(log, 100, 1000)
    assert held(log) <= LIMIT_BYTES
    assert decode(joined(log.read(log.start_offset, 1)))[0].offset == log.start_offset


def test_rings_share_the_budget_and_the_longest_unused_loses_its_oldest(world):
    old, used, new = (world.store.open_memory_log(FOREVER) for _ in range(3))
    first = old.start_offset
    fill(old, 10)
    fill(used, 10)
    old_end = old.written_offset
    used.read(used.start_offset, 1)
    fill(new, 8)
    assert held(old, used, new) <= LIMIT_BYTES
    assert first < old.start_offset < old_end, "its oldest go, its newest stay"
    assert used.start_offset == used.written_offset - 10, "used since"
    with pytest.raises(OffsetOutOfRange):
        old.read(first, 100)
    assert decode(joined(old.read(old.start_offset, 1)))[0].offset == old.start_offset
    fill(new, 100)
    assert held(old, used, new) <= LIMIT_BYTES
    assert old.start_offset == old.written_offset == old_end
    assert old.read(old_end, 100).size == 0
    fill(old, 1)
    assert decode(joined(old.read(old_end, 1)))[0].offset == old_end


def test_a_closed_ring_gives_its_part_back(world):
    gone, stays = (world.store.open_memory_log(FOREVER) for _ in range(2))
    fill(gone, 12)
    fill(stays, 12)
    gone.close()
    start = stays.start_offset
    fill(stays, 10)
    assert stays.start_offset == start


def test_a_batch_larger_than_the_budget_is_taken_and_lost(world):
    log = world.store.open_memory_log(FOREVER)
    fill(log, 1, 2 * LIMIT_BYTES)
    assert held(log) == 0
    assert log.start_offset == log.written_offset
    fill(log, 1)
    assert log.read(log.start_offset, 1).size


def test_a_time_is_looked_for_in_what_was_there_when_the_lookup_was_made(world):
    log = world.store.open_memory_log(LogConfig(retention_bytes=300_000))
    first = log.start_offset
    fill(log, 3)
    by_time, newest = log.timestamp_lookup(START_MS), log.max_timestamp_lookup()
    append(log, batch(b"later", timestamp_ms=START_MS + 5))
    fill(log, 20)
    assert log.start_offset > first + 3
    assert by_time.run() == newest.run() == (first, START_MS)
    assert log.max_timestamp_lookup().run() == (log.start_offset, START_MS)
    assert world.store.open_memory_log().max_timestamp_lookup().run() is None
