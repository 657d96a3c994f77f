"""Batches that claim more than a log can hold, and what becomes of a log when a write meets the unforeseen."""

from __future__ import annotations

import struct

import pytest

from headrace.errors import InvalidRecord, LimitReached, StorageFailed
from headrace.log import staging
from headrace.log.config import MAX_SEGMENT_BYTES, LogConfig
from headrace.log.index import MAX_POSITION, MAX_RELATIVE_OFFSET, Index
from headrace.log.segment import Segment
from headrace.records.batch import read_header
from headrace.records.codec import Producer
from headrace.records.kernel import crc32c
from tests.log.kit import START_MS, World, append, batch, fill, read_now

CONFIG = LogConfig(index_interval_bytes=400, tail_bytes=0)
HUGE = (1 << 31) - 1


def claiming(count: int) -> bytearray:
    """A batch that says it is compressed and has that many records."""
    data = batch(b"x" * 500)
    struct.pack_into(">h", data, 21, 1)
    struct.pack_into(">i", data, 23, count - 1)
    struct.pack_into(">i", data, 57, count)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return data


def stage(log, data):
    return log.stage(data, read_header(data), START_MS, 0)


def test_one_flush_takes_no_more_offsets_than_an_index_can_name():
    world = World(config=CONFIG)
    log = world.log()
    fill(log, 1)
    for _ in range(2):
        stage(log, claiming(HUGE))
    with pytest.raises(LimitReached, match="offsets staged for one flush"):
        stage(log, claiming(HUGE))
    log.flush()
    assert log.failed is None
    assert log.written_offset == 1 + 2 * HUGE
    for _ in range(4):
        append(log, claiming(HUGE))
    fill(log, 1)
    end = log.written_offset
    assert end == 2 + 6 * HUGE
    assert read_now(log, end - 1).next_offset == end
    world.crash()
    assert world.log().written_offset == end


def test_a_file_whose_offsets_do_not_fit_an_index_is_opened_and_read(monkeypatch):
    world = World(config=CONFIG)
    log = world.log()
    monkeypatch.setattr(staging, "MAX_STAGED_OFFSETS", 1 << 62)
    for _ in range(6):
        stage(log, claiming(HUGE))
    log.flush()
    fill(log, 1)
    world.crash()
    log = world.log()
    assert log.written_offset == 6 * HUGE + 1
    assert read_now(log, 5 * HUGE).next_offset >= 6 * HUGE
    log.segments[0].index = None
    assert read_now(log, 5 * HUGE).next_offset >= 6 * HUGE


def test_an_index_leaves_out_what_it_can_not_hold():
    index = Index()
    index.add(MAX_RELATIVE_OFFSET, MAX_POSITION, 1)
    index.add(MAX_RELATIVE_OFFSET + 1, MAX_POSITION, 2)
    index.add(MAX_RELATIVE_OFFSET, MAX_POSITION + 1, 2)
    assert len(index.offsets) == len(index.positions) == len(index.timestamps) == 2


def test_a_lookup_beside_an_append_sees_an_index_without_the_entry_or_with_it():
    index = Index()
    index.add(10, 1000, 5)
    index.positions.append(2000)  # the append has come so far
    index.timestamps.append(9)
    assert index.find_time(20) == (10, 1000)
    cut = index.before(600)
    assert list(cut.offsets) == [0]
    assert index.find(10) == (10, 1000), "who looks at the old one still may"


def test_a_segment_can_not_be_longer_than_positions_reach():
    LogConfig(segment_bytes=MAX_SEGMENT_BYTES)
    for size in (0, MAX_SEGMENT_BYTES + 1):
        with pytest.raises(ValueError, match="are possible"):
            LogConfig(segment_bytes=size)


def test_a_producer_without_a_sequence_is_refused():
    log = World().log()
    for _ in range(3):
        data = batch(producer=Producer(77, 0, -1))
        with pytest.raises(InvalidRecord, match="sequence -1"):
            stage(log, data)
    assert not log.has_staged


@pytest.mark.parametrize("moment", ["note", "pwritev"])
def test_the_unforeseen_in_a_write_fails_the_log_and_opening_it_finds_what_is_true(monkeypatch, moment):
    world = World(config=CONFIG)
    log = world.log()
    fill(log, 2)

    def unforeseen(*_: object) -> int:
        raise OverflowError("who would have thought")

    told: list[object] = []
    log.when_synced(2, told.append)
    with monkeypatch.context() as patch:
        patch.setattr(*((Segment, "note") if moment == "note" else (world.disk, "pwritev")), unforeseen)
        stage(log, batch())
        with pytest.raises(StorageFailed, match="who would have thought"):
            log.flush()
    assert isinstance(log.failed, StorageFailed)
    assert (log.written_offset, log.end_offset, log.has_staged) == (2, 2, False)
    assert told == [log.failed]
    world.background.drain()
    again = world.log()
    assert again.written_offset == (3 if moment == "note" else 2)
    fill(again, 1)
    assert read_now(again, again.written_offset - 1).size
