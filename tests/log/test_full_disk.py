"""No space left: the write is refused, nothing of it stays, and everything resumes when there is space."""

from __future__ import annotations

import pytest

from headrace.errors import DiskFull, HeadraceError
from headrace.log.config import LogConfig
from headrace.records.batch import read_header
from headrace.records.codec import Producer
from tests.log.kit import START_MS, World, append, batch, fill, joined, read_all, read_now

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=300, retention_bytes=2000, retention_ms=-1, tail_bytes=0)


@pytest.mark.parametrize("free_bytes", [0, 1, 60, 177, 200, 300])
def test_a_refused_flush_leaves_no_trace(free_bytes):
    world = World()
    log = world.log(config=CONFIG)
    written = fill(log, 3)
    size = len(world.disk.contents(log.segments[0].path()))
    world.disk.fill(free_bytes)
    first, second = (batch(b"x" * 100, producer=Producer(9, 0, n)) for n in range(2))
    for data in (first, second):
        log.stage(data, read_header(data), START_MS, 3)
    with pytest.raises(DiskFull):
        log.flush()
    assert (log.end_offset, log.written_offset, log.failed) == (3, 3, None)
    assert len(world.disk.contents(log.segments[0].path())) == size
    assert log.epochs.written == 0
    world.disk.empty()
    staged = append(log, first, second, epoch=3)
    assert [s.base_offset for s in staged] == [3, 4]
    assert not any(s.duplicate for s in staged), "the refused ones are not remembered"
    assert read_all(log).startswith(b"".join(written))
    assert world.sync(log) is None
    world.power_loss("none")
    assert world.log(config=CONFIG).written_offset == 5


def test_the_very_first_write_may_be_refused():
    world = World()
    log = world.log()
    world.disk.fill(100)
    for _ in range(3):
        with pytest.raises(DiskFull):
            append(log, batch())
    world.disk.empty()
    append(log, batch())
    assert read_now(log, 0).next_offset == 1
    world.crash()
    assert world.log().written_offset == 1


def test_a_refused_roll_is_tried_again():
    world = World()
    log = world.log(config=CONFIG)
    fill(log, 7)
    assert len(log.segments) == 1
    world.disk.fill(200)
    with pytest.raises(DiskFull):
        append(log, batch(b"x" * 100))
    world.crash()
    log = world.log(config=CONFIG)
    assert log.written_offset == 7
    with pytest.raises(DiskFull):
        append(log, batch(b"x" * 300))
    world.disk.empty()
    fill(log, 2)
    assert read_now(log, 7).size
    assert log.written_offset == 9


def test_snapshots_that_do_not_fit_harm_nothing():
    world = World()
    log = world.log(config=CONFIG)
    fill(log, 30)
    world.disk.fill(0)
    told: list[HeadraceError | None] = []
    log.snapshot(told.append)
    world.background.drain()
    assert isinstance(told[0], DiskFull)
    assert "log.not-saved" in world.kinds()
    assert log.failed is None
    world.disk.fill(300)
    append(log, batch(b"fits"))
    assert world.sync(log) is None
    world.disk.empty()
    log.snapshot(told.append)
    world.background.drain()
    assert told[1] is None


def test_retention_frees_space_on_a_disk_that_is_full():
    world = World()
    log = world.log(config=CONFIG)
    fill(log, 40)
    world.background.drain()
    world.disk.fill(0)
    assert log.apply_retention(START_MS) > 2
    world.background.drain()
    written = fill(log, 5)
    start = log.start_offset
    assert start > 0
    assert world.sync(log) is None
    world.power_loss("some")
    log = world.log(config=CONFIG)
    assert log.start_offset == start
    assert read_all(log).endswith(b"".join(written))
    assert "log.damage" not in world.kinds()


def test_a_store_opens_on_a_full_disk():
    world = World()
    written = fill(world.log(config=CONFIG), 20)
    world.disk.fill(0)
    world.crash()
    log = world.log(config=CONFIG)
    assert read_all(log) == b"".join(written)
    with pytest.raises(DiskFull):
        append(log, batch(b"x" * 1000))
    world.disk.empty()
    append(log, batch(b"x" * 1000))
    assert world.sync(log) is None
    world.power_loss("none")
    assert world.log(config=CONFIG).written_offset == 21


def test_deleting_records_says_when_it_could_not_be_made_to_last():
    world = World()
    log = world.log(config=CONFIG)
    fill(log, 5)
    world.background.drain()
    world.disk.fill(0)
    told: list[HeadraceError | None] = []
    log.delete_records(3, told.append)
    world.background.drain()
    assert isinstance(told[0], DiskFull)
    world.disk.empty()
    log.delete_records(3, told.append)
    world.background.drain()
    assert told[1] is None
    world.power_loss("none")
    log = world.log(config=CONFIG)
    assert log.start_offset == 3
    assert joined(read_now(log, 3))
