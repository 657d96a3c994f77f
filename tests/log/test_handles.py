"""No file handles left: everything waits or is refused, nothing fails, and all resumes by itself."""

from __future__ import annotations

import errno

import pytest

from headrace.errors import DiskFull, HeadraceError, StorageFailed
from headrace.log.config import LogConfig
from headrace.testing.disk import SimulatedDisk
from tests.log.kit import START_MS, World, append, batch, fill, read_now


class FewHandles(SimulatedDisk):
    """Whatever has to be opened is refused while `is_short`."""

    is_short = False

    def open(self, path: str, *, create: bool = False) -> int:
        self._check()
        return super().open(path, create=create)

    def sync_directory(self, path: str) -> None:
        self._check()
        super().sync_directory(path)

    def _check(self) -> None:
        if self.is_short:
            raise OSError(errno.EMFILE, "Too many open files")


@pytest.fixture
def disk() -> FewHandles:
    return FewHandles()


@pytest.fixture
def world(disk: FewHandles) -> World:
    return World(disk)


def test_a_round_that_can_not_open_a_directory_is_repeated(world, disk):
    log = world.log()
    fill(log, 1)
    told: list[HeadraceError | None] = []
    log.when_synced(1, told.append)
    log.after_sync(told.append)
    disk.is_short = True
    world.background.drain()
    for _ in range(3):
        world.store.tick()
        world.background.drain()
    assert told == []
    assert (log.failed, log.synced_offset) == (None, 0)
    assert world.kinds() == ["log.not-synced"], "said once"
    assert "limit of open files" in world.events[0][1]["why"]
    fill(log, 1)
    disk.is_short = False
    log.maintain(START_MS)
    world.background.drain()
    assert told == [None, None]
    assert log.synced_offset == 2
    world.power_loss("none")
    assert world.log().written_offset == 2


def test_what_was_not_proven_is_not_in_the_journal(world, disk):
    log = world.log()
    fill(log, 1)
    disk.is_short = True
    assert not log.sync_now()
    assert world.store.services.journal.mark(log.log_id) is None
    disk.is_short = False
    assert log.sync_now()
    assert world.store.services.journal.mark(log.log_id) is not None


def test_a_failed_sync_of_a_file_stays_fatal_while_handles_are_short(world, disk):
    log = world.log()
    fill(log, 1)
    disk.is_short = True
    disk.fail_syncs(1, ".log")
    told: list[HeadraceError | None] = []
    log.when_synced(1, told.append)
    world.background.drain()
    assert isinstance(told[0], StorageFailed)
    assert log.failed is told[0]


def test_an_append_that_needs_a_file_is_refused_and_says_why(world, disk):
    log = world.log(config=LogConfig(segment_bytes=500))
    fill(log, 2)
    disk.is_short = True
    with pytest.raises(DiskFull, match="limit of open files"):
        append(log, batch(b"x" * 400))
    assert (log.failed, log.end_offset) == (None, 2)
    disk.is_short = False
    append(log, batch(b"x" * 400))
    assert read_now(log, 2).next_offset == 3


def test_reads_and_lookups_are_refused_and_nothing_is_taken_for_damage(world, disk):
    log = world.log(config=LogConfig(tail_bytes=0))
    fill(log, 3)
    world.sync(log)
    world.store.services.budget.close(log.segments[0])
    log.segments[0].index = None
    disk.is_short = True
    with pytest.raises(DiskFull, match="open files"):
        read_now(log, 0)
    with pytest.raises(DiskFull, match="open files"):
        log.timestamp_lookup(START_MS).run()
    disk.is_short = False
    assert read_now(log, 0).size
    assert log.timestamp_lookup(START_MS).run() == (0, START_MS)
    assert not log.holes


def test_a_snapshot_that_can_not_be_opened_is_not_taken_for_a_damaged_one(world, disk):
    log = world.log()
    fill(log, 10)
    log.delete_records(5)
    world.background.drain()
    world.crash()
    disk.is_short = True
    with pytest.raises(DiskFull, match="open files"):
        world.log()
    disk.is_short = False
    assert world.log().start_offset == 5


def test_a_stop_does_not_wait_for_handles(world, disk):
    log = world.log()
    fill(log, 1)
    told: list[HeadraceError | None] = []
    log.when_synced(1, told.append)
    disk.is_short = True
    done: list[bool] = []
    world.store.drain(lambda: done.append(True))
    world.background.drain()
    assert done
    assert isinstance(told[0], DiskFull)


def test_a_disk_that_does_not_read_is_told_by_a_lookup(world, disk):
    log = world.log(config=LogConfig(tail_bytes=0))
    fill(log, 3)
    disk.fail_reads(1)
    assert log.timestamp_lookup(START_MS).run() == (0, START_MS), "what is refused is asked for once again"
    disk.fail_reads(2)
    with pytest.raises(StorageFailed, match="check the disk"):
        log.timestamp_lookup(START_MS).run()
