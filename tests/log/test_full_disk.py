"""No space left: the write is refused, nothing of it stays, and everything resumes when there is space."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from headrace.errors import DiskFull, HeadraceError
from headrace.log.config import LogConfig, ignore_error
from headrace.ports import Buffer
from headrace.records.batch import read_header
from headrace.records.codec import Producer, decode
from headrace.testing.disk import SimulatedDisk
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


def test_a_refused_write_takes_no_failure_away_from_the_sync_that_is_under_way():
    world = World()
    log = world.log()
    fill(log, 3)
    assert world.sync(log) is None
    first, second = (batch(b"x" * 100, producer=Producer(9, 0, n)) for n in range(2))
    append(log, first)
    told: list[HeadraceError | None] = []
    log.when_synced(4, told.append)
    world.disk.fill(50)
    world.disk.fail_syncs(1, ".log")
    with pytest.raises(DiskFull):
        append(log, second)
    world.disk.empty()
    world.background.drain()
    assert len(told) == 1
    assert told[0] is not None, "the sync that failed was this one's"
    log = world.log()
    assert append(log, first)[0].base_offset == 3
    log.when_synced(4, told.append)
    world.background.drain()
    assert told[1] is None
    world.power_loss("none")
    assert world.log().written_offset == 4


class SyncedWhenFull(SimulatedDisk):
    """A sync's thread gets its turn between a write that the disk took in part and what becomes of that part."""

    meanwhile: Callable[[], None] | None = None

    def pwritev(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        try:
            return super().pwritev(handle, buffers, position)
        except OSError:
            act, self.meanwhile = self.meanwhile, None
            if act is not None:
                act()
            raise


def test_a_refused_batch_that_a_round_has_synced_does_not_come_back_in_the_place_of_an_acknowledged_one():
    disk = SyncedWhenFull()
    world = World(disk, config=LogConfig(segment_bytes=1500, index_interval_bytes=300, tail_bytes=0))
    log = world.log()
    fill(log, 3)
    assert world.sync(log) is None
    append(log, batch(b"before"))
    log.when_synced(4, ignore_error)  # a round begins
    refused = batch(b"refused" * 20)
    disk.fill(len(refused) + 20)  # the first of the two fits
    disk.meanwhile = world.background.work
    with pytest.raises(DiskFull):
        append(log, refused, batch(b"too much" * 20))
    assert disk.meanwhile is None, "the round synced the file with the refused batch in it"
    disk.empty()
    while world.background.results:
        world.background.tell()
    (staged,) = append(log, batch(b"acknowledged" * 75))
    assert len(log.segments) == 2
    told: list[HeadraceError | None] = []
    log.when_synced(staged.base_offset + 1, told.append)
    while not told:
        world.background.step()
    assert told == [None]
    world.power_loss("none")
    values = [record.value for record in decode(read_all(world.log()))]
    assert values[3:] == [b"before", b"acknowledged" * 75]


def test_a_refused_write_does_not_wait_for_the_disk():
    world = World()
    log = world.log()
    fill(log, 3)
    assert world.sync(log) is None
    world.disk.fill(50)
    world.disk.trace.clear()
    for _ in range(10):
        with pytest.raises(DiskFull):
            append(log, batch(b"x" * 100))
    assert not [line for line in world.disk.trace if line.startswith("sync")]
    assert log.is_unsynced, "what was cut off is still to be synced"
    world.disk.empty()
    assert world.sync(log) is None
    world.stop()
    assert not log.is_unsynced


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
