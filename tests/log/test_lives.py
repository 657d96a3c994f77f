"""Many lives of one store, each ended by a plug pulled in the middle of whatever it was doing, recovery included."""

from __future__ import annotations

import contextlib
import random

import pytest

from headrace.errors import DiskFull, HeadraceError, StorageFailed
from headrace.log.config import StoreLimits
from headrace.testing.disk import PowerLoss, SimulatedDisk
from tests.log.history import CONFIG, History, check_bytes, check_duplicates
from tests.log.kit import World

LIVES = 8
OPERATIONS_PER_LIFE = 40


def live(history: History, chance: random.Random, operations: int = OPERATIONS_PER_LIFE) -> None:
    """Whatever callers do, in any order; the background is as slow as it likes."""
    steps = history.world.background
    for _ in range(operations):
        name, what = chance.choice("ab"), chance.random()
        log = history.logs[name]
        if what < 0.4:
            history.append(name, chance.randint(1, 3), chance.randint(1, 3), chance.choice([10, 100, 900]))
        elif what < 0.6:
            history.sync(name)
        elif what < 0.65:
            history.delete_records(name, chance.randint(log.start_offset, log.written_offset))
        elif what < 0.7:
            history.retain(name)
        elif what < 0.72:
            log.snapshot()
        elif what < 0.73:
            history.world.store.tick()
        elif what < 0.76:
            steps.drain()
        elif what < 0.9 and steps.waiting:
            steps.work(chance.randrange(len(steps.waiting)))
        elif steps.results:
            steps.tell(chance.randrange(len(steps.results)))


def reopen(history: History, is_killed: bool) -> None:
    """Holds the logs to their promises; what they lost beyond those is forgotten."""
    world = history.world
    for name, promises in history.promises.items():
        log = history.logs[name] = world.log(name, CONFIG)
        assert "log.damage" not in world.kinds(), world.events
        assert log.written_offset >= (promises.written if is_killed else promises.synced), name
        assert promises.deleted <= log.start_offset <= max(promises.start, promises.deleted)
        promises.appended = {at: data for at, data in promises.appended.items() if at < log.written_offset}
        check_bytes(name, log, promises)
        check_duplicates(name, log, promises)
        promises.written = promises.synced = log.written_offset
        promises.start = max(promises.start, log.start_offset)
        promises.epoch, promises.sequence = promises.epoch + 1, 0


@pytest.mark.parametrize("seed", range(25))
def test_a_store_of_many_lives_keeps_every_promise(seed):
    chance = random.Random(seed)
    disk = SimulatedDisk(seed, short_writes=0.1, waits=0.2)
    history = History(World(disk, limits=StoreLimits(snapshot_bytes=2000, open_files=3, tail_bytes=4000)))
    history.open_all()
    for _ in range(LIVES):
        is_killed = chance.random() < 0.3
        disk.stop_at(disk.changes + chance.randint(1, 90))
        with contextlib.suppress(PowerLoss):
            live(history, chance)
        for attempt in range(3):  # recovery itself is cut short, twice at most
            if is_killed:
                disk.crash()
            else:
                disk.power_loss(chance.choice(["none", "all", "some", "some"]))
            if attempt < 2:
                disk.stop_at(disk.changes + chance.randint(1, 60))
            try:
                history.world.start()
                reopen(history, is_killed)
                disk.stop_at(-1)
                break
            except PowerLoss:
                continue


@pytest.mark.parametrize("seed", range(5))
def test_a_full_disk_in_every_life_changes_nothing_about_that(seed):
    chance = random.Random(seed)
    disk = SimulatedDisk(seed)
    history = History(World(disk))
    history.open_all()
    for _ in range(LIVES):
        disk.fill(chance.randint(0, 6000))
        for _ in range(10):
            try:
                live(history, chance)
            except DiskFull:
                for name, promises in history.promises.items():
                    end = history.logs[name].written_offset
                    promises.appended = {at: data for at, data in promises.appended.items() if at < end}
                    promises.epoch, promises.sequence = promises.epoch + 1, 0
        disk.empty()
        disk.power_loss("some")
        history.world.start()
        reopen(history, is_killed=False)


def disturb(history: History, chance: random.Random) -> None:
    """The disk fills up, a sync fails, or there is space again: whatever else is under way."""
    disk, what = history.world.disk, chance.random()
    if what < 0.4:
        disk.fill(chance.randint(0, 600))
    elif what < 0.6:
        disk.fail_syncs(1, f"topics/{chance.choice('ab')}")
    else:
        disk.empty()


def after_trouble(history: History) -> None:
    """What was refused is forgotten, and a log that broke is opened anew, as its owner does."""
    for name, promises in history.promises.items():
        log = history.logs[name]
        while log.broken:
            history.world.background.drain()  # opened once no round is at it
            with contextlib.suppress(StorageFailed):  # a sync of the recovery may be the one that fails
                log = history.logs[name] = history.world.log(name, CONFIG)
                assert "log.damage" not in history.world.kinds(), history.world.events
                assert log.written_offset >= promises.synced, name
        promises.appended = {at: data for at, data in promises.appended.items() if at < log.written_offset}
        promises.written = log.written_offset
        promises.epoch, promises.sequence = promises.epoch + 1, 0


@pytest.mark.parametrize("seed", range(40))
def test_a_disk_that_is_full_while_its_syncs_fail_costs_nothing_that_was_acknowledged(seed):
    chance = random.Random(seed)
    disk = SimulatedDisk(seed, short_writes=0.1, forgets=chance.choice((0.0, 0.5, 1.0)))
    history = History(World(disk))
    history.open_all()
    for _ in range(LIVES):
        for _ in range(20):
            disturb(history, chance)
            with contextlib.suppress(HeadraceError):
                live(history, chance, chance.randint(1, 8))
            after_trouble(history)
        disk.empty()
        disk.power_loss(chance.choice(["none", "some"]))
        history.world.start()
        reopen(history, is_killed=False)
