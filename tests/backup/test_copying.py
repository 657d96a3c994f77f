"""Copies of a log that goes on living: whatever it does between two looks, the copy is a true piece of its history."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from headrace.errors import BackupUnsettled, DiskFull
from headrace.log.config import LogConfig
from headrace.log.copied import CopiedFile
from headrace.log.copying import CopiedLog, LogCopier, SegmentKey, survey
from headrace.log.format import segment_name
from headrace.log.journal import load_marks
from headrace.log.log import Log
from headrace.ports import Files
from headrace.records.codec import Producer
from headrace.testing.disk import SimulatedDisk
from tests.log.kit import START_MS, World, append, batch, fill, read_all

SMALL = LogConfig(segment_bytes=1024, index_interval_bytes=300, tail_bytes=0, retention_ms=-1)
COPY = "/copy"
LOG_ID = b"a".ljust(16, b"-") + bytes(4)


class Watched:
    """The files of a log in use: before every look something may happen to them."""

    def __init__(self, world: World, before: Callable[[], None]) -> None:
        self._files, self._before = world.files, before

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._files, name)

        def watched(*args: Any, **options: Any) -> Any:
            self._before()
            return call(*args, **options)

        return watched


class Nothing:
    """No segment was copied before."""

    def take(self, key: SegmentKey, size: int, path: str) -> str | None:
        return None

    def note(self, key: SegmentKey, file: CopiedFile, path: str) -> None:
        pass


def copy(world: World, before: Callable[[], None] = lambda: None, target: SimulatedDisk | None = None) -> CopiedLog:
    """As a backup does it."""
    source = Watched(world, before)
    copier = LogCopier(source, target or world.files, Nothing(), lambda _: None)
    folder = f"{COPY}/topics/a/0"
    for _ in range(10):
        try:
            mark = load_marks(source, f"{world.root}/synced").get(LOG_ID)
            found = survey(source, world.folder(), LOG_ID, mark)
            copied = copier.copy(found, folder, START_MS)
        except BackupUnsettled:
            continue
        if copier.is_settled(found, copied, folder):
            return copied
    raise AssertionError("it never settled")


def opened(disk: Files) -> tuple[World, Log]:
    elsewhere = World(disk, root=COPY)
    log = elsewhere.log(config=SMALL)
    assert elsewhere.kinds() == [], "there is nothing to repair in a copy"
    return elsewhere, log


def test_a_copy_of_a_log_at_rest_is_the_log() -> None:
    world = World()
    log = world.log(config=SMALL)
    written = fill(log, 30)
    world.sync(log)
    copied = copy(world)
    _, again = opened(world.files)
    assert (copied.start_offset, copied.next_offset) == (0, 30)
    assert (again.start_offset, again.written_offset) == (0, 30)
    assert read_all(again) == b"".join(written) == read_all(log)
    assert not copied.damage


def test_what_was_never_written_to_is_copied_as_nothing() -> None:
    world = World()
    world.log(config=SMALL)
    assert copy(world) == CopiedLog()
    assert not world.files.exists(COPY)


def test_a_copy_knows_producers_epochs_and_start_as_the_log_does() -> None:
    world = World()
    log = world.log(config=SMALL)
    for number in range(20):
        append(log, batch(b"x" * 100, producer=Producer(7, 1, number)), epoch=number // 10)
    log.delete_records(6)
    world.background.drain()
    copy(world)
    _, again = opened(world.files)
    assert again.start_offset == 6
    assert again.epochs.entries() == log.epochs.entries()
    duplicate = batch(b"x" * 100, producer=Producer(7, 1, 19))
    assert append(again, duplicate)[0].duplicate


def test_a_batch_that_is_being_written_is_not_in_the_copy() -> None:
    world = World()
    log = world.log(config=SMALL)
    written = fill(log, 3)
    torn = batch(b"y" * 100)
    handle = world.files.open(log.segments[-1].path())
    world.files.pwritev(handle, (torn[:80],), log.segments[-1].size)
    assert copy(world).next_offset == 3
    _, again = opened(world.files)
    assert read_all(again) == b"".join(written)


def test_a_segment_that_is_let_go_meanwhile_takes_the_older_ones_with_it() -> None:
    world = World()
    log = world.log(config=SMALL)
    written = fill(log, 40)
    world.sync(log)
    looks = 0

    def before() -> None:
        nonlocal looks
        looks += 1
        if looks == 60:
            log.configure(LogConfig(segment_bytes=1024, index_interval_bytes=300, retention_bytes=2500, tail_bytes=0))
            log.apply_retention(START_MS)
            world.background.drain()

    copied = copy(world, before)
    assert looks > 60
    _, again = opened(world.files)
    assert 0 < again.start_offset <= log.start_offset
    assert (copied.start_offset, copied.next_offset) == (again.start_offset, 40)
    assert read_all(again) == b"".join(written[again.start_offset :])


def test_damage_that_nobody_knew_of_is_told_and_copied_as_it_is() -> None:
    world = World()
    log = world.log(config=SMALL)
    fill(log, 30)
    log.snapshot()
    world.background.drain()
    world.disk.flip_bit(f"{world.folder()}/{segment_name(4)}", 400)
    copied = copy(world)
    assert len(copied.damage) == 1 and segment_name(4) in copied.damage[0]
    assert copied.next_offset == 30


def test_damage_that_is_known_is_copied_and_not_told_again() -> None:
    world = World()
    log = world.log(config=SMALL)
    fill(log, 30)
    log.snapshot()
    world.background.drain()
    world.disk.flip_bit(f"{world.folder()}/{segment_name(4)}", 400)
    world.restart()
    log = world.log(config=SMALL)
    with pytest.raises(Exception, match="damaged"):
        read_all(log)
    copied = copy(world)
    assert copied.damage == () and copied.holes == 1
    _, again = opened(world.files)
    assert list(again.holes) == list(log.holes)


@pytest.mark.parametrize("seed", range(150))
def test_whatever_happens_meanwhile_the_copy_is_a_piece_of_the_log(seed: int) -> None:
    chance = random.Random(seed)
    world = World()
    log = world.log(config=SMALL)
    log.configure(
        LogConfig(segment_bytes=1024, index_interval_bytes=300, retention_bytes=chance.choice((-1, 4000)), tail_bytes=0)
    )
    written = fill(log, chance.randrange(40))
    world.background.drain()
    begin = log.written_offset
    often = chance.choice((0.02, 0.1, 0.3))

    def live() -> None:
        if chance.random() > often:
            return
        what = chance.randrange(8)
        if what <= 1:
            for data in [batch(b"%06d" % len(written) + b"z" * 90) for _ in range(chance.randrange(1, 9))]:
                with contextlib.suppress(DiskFull):
                    append(log, data)
                    written.append(bytes(data))
        elif what == 6:
            world.disk.fill(chance.randrange(400))
        elif what == 7:
            world.disk.empty()
        elif what == 2:
            log.apply_retention(START_MS)
        elif what == 3:
            log.sync_soon()
        elif what == 4 and world.background.waiting:
            world.background.step()
        elif what == 5 and log.start_offset < log.written_offset:
            log.delete_records(chance.randrange(log.start_offset, log.written_offset + 1))

    disk = SimulatedDisk()
    copied = copy(world, live, disk)
    _, again = opened(disk)
    assert begin <= copied.next_offset == again.written_offset <= log.written_offset
    assert copied.start_offset == again.start_offset <= log.start_offset
    assert read_all(again) == b"".join(written[again.start_offset : again.written_offset])
    assert copied.damage == ()


def _more(log: Log, count: int, first: int) -> list[bytes]:
    made = [batch(b"%06d" % (first + number) + b"z" * 90) for number in range(count)]
    for data in made:
        append(log, data)
    return [bytes(data) for data in made]


@pytest.mark.parametrize("seed", range(60))
def test_an_end_that_is_cut_off_meanwhile_is_copied_anew(seed: int) -> None:
    chance = random.Random(seed)
    world = World()
    log = world.log(config=SMALL)
    written = fill(log, 30)
    world.background.drain()
    at, histories = chance.randrange(150), [list(written)]

    def before() -> None:
        nonlocal at
        at -= 1
        if at == 0:
            cut = chance.randrange(1, 30)
            log.truncate(cut)
            world.background.drain()
            del written[log.written_offset :]
            written.extend(_more(log, chance.randrange(12), 1000))
            histories.append(written)

    copied = copy(world, before)
    _, again = opened(world.files)
    # Cut off just after the last look: then the copy is of the log as it was. Never a mixture of both.
    assert read_all(again) in [b"".join(history[: copied.next_offset]) for history in histories]
    assert copied.next_offset == again.written_offset >= 1


class GoesMeanwhile(SimulatedDisk):
    """A log whose folder is deleted between the look for it and the look into it."""

    def exists(self, path: str) -> bool:
        return True


def test_a_log_that_is_deleted_while_it_is_looked_at_is_left_for_the_next_round():
    with pytest.raises(BackupUnsettled, match="is being deleted"):
        survey(GoesMeanwhile(), "/data/topics/gone/0", LOG_ID, None)
