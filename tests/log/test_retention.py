"""Letting go of what is old: by time, by size, by request; safe at every moment."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError, OffsetOutOfRange, StorageFailed
from headrace.log.config import LogConfig
from headrace.log.format import DELETED
from headrace.log.reader import FileRead
from tests.log.kit import START_MS, World, append, batch, fill, read_all, read_now

BY_SIZE = LogConfig(segment_bytes=1024, index_interval_bytes=300, tail_bytes=0, retention_bytes=2500, retention_ms=-1)
BY_TIME = LogConfig(segment_bytes=1024, index_interval_bytes=300, tail_bytes=0, retention_ms=1000)


def names(world: World) -> list[str]:
    return [name for name in world.files.list(world.folder()) if not name.startswith("snapshot")]


def test_by_size_the_oldest_segments_go_and_the_limit_stays_filled():
    world = World()
    log = world.log(config=BY_SIZE)
    written = fill(log, 40)
    log.apply_retention(START_MS)
    assert 2500 <= log.size_bytes < 2500 + 1024
    assert log.start_offset == log.segments[0].base
    assert read_all(log) == b"".join(written[log.start_offset :])
    with pytest.raises(OffsetOutOfRange):
        log.read(log.start_offset - 1, 100)
    world.background.drain()
    assert len(names(world)) == 2 * len(log.segments) - (0 if log.segments[-1].index_saved else 1)
    assert not any(name.endswith(DELETED) for name in names(world))


def test_by_time_a_segment_goes_when_its_newest_record_is_old():
    world = World()
    log = world.log(config=BY_TIME)
    for number in range(20):
        append(log, batch(b"x" * 100, timestamp_ms=START_MS + 100 * number))
    assert log.apply_retention(START_MS + 1000 + 350) == 1, "the fourth record, the segment's last, is 300 old"
    assert log.start_offset == 4
    assert log.apply_retention(START_MS + 1000 + 350) == 0


def test_a_log_that_is_old_as_a_whole_is_emptied_and_keeps_its_place():
    world = World()
    log = world.log(config=BY_TIME)
    fill(log, 10)
    assert log.apply_retention(START_MS + 10_000) == 3
    assert (log.start_offset, log.written_offset) == (10, 10)
    assert log.apply_retention(START_MS + 20_000) == 0, "an empty segment is not rolled for ever"
    world.background.drain()
    for keep in ("none", "some"):
        world.power_loss(keep)
        log = world.log(config=BY_TIME)
        assert (log.start_offset, log.written_offset) == (10, 10)
    append(log, batch())
    assert read_now(log, 10).next_offset == 11


def test_timestamps_that_are_missing_count_from_the_segments_making():
    world = World()
    log = world.log(config=BY_TIME)
    for _ in range(10):
        append(log, batch(b"x" * 100, timestamp_ms=-1))
    assert log.apply_retention(START_MS + 900) == 0
    assert log.apply_retention(START_MS + 1001) == 3


def test_minus_one_keeps_everything():
    world = World()
    log = world.log(config=LogConfig(segment_bytes=1024, retention_ms=-1))
    fill(log, 40)
    assert log.apply_retention(START_MS * 2) == 0


def test_deleted_records_stay_deleted_once_the_caller_was_told():
    world = World()
    log = world.log(config=BY_SIZE)
    written = fill(log, 20)
    told: list[HeadraceError | None] = []
    assert log.delete_records(10, told.append) == 10
    with pytest.raises(OffsetOutOfRange):
        log.read(9, 100)
    assert not told
    world.background.drain()
    assert told == [None]
    world.power_loss("none")
    log = world.log(config=BY_SIZE)
    assert log.start_offset == 10
    assert read_all(log) == b"".join(written[10:])
    assert log.segments[0].base == 8
    assert log.delete_records(5) == 10, "it never moves back"
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(21)


def test_a_disk_that_does_not_give_the_snapshot_for_a_moment_brings_nothing_back():
    world = World()
    log = world.log(config=BY_SIZE)
    fill(log, 20)
    log.delete_records(10)
    world.background.drain()
    world.crash()
    world.disk.fail_reads(1, "snapshot")
    with pytest.raises(StorageFailed):
        world.log(config=BY_SIZE)
    assert world.log(config=BY_SIZE).start_offset == 10
    assert not world.events


def test_asking_twice_waits_for_the_same_snapshot():
    world = World()
    log = world.log(config=BY_SIZE)
    fill(log, 5)
    told: list[str] = []
    log.delete_records(3, lambda error: told.append("first"))
    log.delete_records(3, lambda error: told.append("second"))
    assert not told
    world.background.drain()
    assert sorted(told) == ["first", "second"]


def test_a_read_on_its_way_while_its_segment_goes_is_out_of_range():
    world = World()
    log = world.log(config=BY_SIZE)
    fill(log, 40)
    world.background.drain()
    world.store.services.indexes.forget(log.segments[0])
    read = log.read(0, 1000)
    assert isinstance(read, FileRead)
    log.apply_retention(START_MS)
    world.background.drain()
    with pytest.raises(OffsetOutOfRange) as caught:
        read.run()
    assert caught.value.start > 0


def test_retention_does_not_touch_a_read_that_is_done():
    world = World()
    log = world.log(config=BY_SIZE)
    written = fill(log, 40)
    result = read_now(log, 0, 1000)
    log.apply_retention(START_MS)
    world.background.drain()
    assert bytes(result.pieces[0]) == b"".join(written[:4])


def test_leader_epochs_before_the_start_are_forgotten():
    world = World()
    log = world.log(config=BY_SIZE)
    for epoch in range(4):
        for _ in range(10):
            append(log, batch(b"x" * 100), epoch=epoch)
    log.delete_records(25)
    assert log.epochs.entries() == [(2, 25), (3, 30)]
