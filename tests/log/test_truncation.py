"""Cutting the end off, as a follower does."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError, OffsetOutOfRange
from headrace.log.config import LogConfig
from headrace.log.reader import FileRead, Wish
from headrace.records.batch import read_header
from headrace.records.codec import Producer
from headrace.testing.disk import PowerLoss
from tests.log.kit import START_MS, World, append, batch, fill, read_all, read_now

SMALL = LogConfig(segment_bytes=1024, index_interval_bytes=300, tail_bytes=500)


@pytest.mark.parametrize("offset", [0, 1, 4, 10, 19, 20])
def test_what_is_cut_off_is_gone_and_the_log_goes_on(offset):
    world = World()
    log = world.log(config=SMALL)
    written = fill(log, 20)
    told: list[HeadraceError | None] = []
    log.truncate(offset, told.append)
    world.background.drain()
    assert told == [None]
    assert log.written_offset == log.end_offset == offset
    assert read_all(log) == b"".join(written[:offset])
    more = fill(log, 3)
    assert world.sync(log) is None
    world.power_loss("none")
    log = world.log(config=SMALL)
    assert log.written_offset == offset + 3
    assert read_all(log) == b"".join(written[:offset] + more)
    assert "log.damage" not in world.kinds()


def test_an_offset_within_a_batch_cuts_the_whole_batch():
    world = World()
    log = world.log(config=SMALL)
    for _ in range(3):
        append(log, batch(count=4))
    log.truncate(6)
    world.background.drain()
    assert log.written_offset == 4


def test_a_cut_within_the_first_batch_leaves_an_empty_log_at_its_start():
    world = World()
    log = world.log(config=SMALL)
    append(log, batch(count=4))
    log.delete_records(1)
    world.background.drain()
    log.truncate(3)
    world.background.drain()
    assert (log.start_offset, log.written_offset) == (1, 1)
    world.crash()
    log = world.log(config=SMALL)
    assert (log.start_offset, log.written_offset) == (1, 1)
    append(log, batch())
    assert read_now(log, 1).next_offset == 2


def test_epochs_and_producers_are_taken_back():
    world = World()
    log = world.log(config=SMALL)
    batches = [batch(producer=Producer(1, 0, n)) for n in range(6)]
    for number, data in enumerate(batches):
        append(log, data, epoch=number)
    log.truncate(4)
    world.background.drain()
    assert log.epochs.entries() == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert log.stage(bytearray(batches[3]), read_header(batches[3]), START_MS, 6).duplicate
    assert not log.stage(bytearray(batches[4]), read_header(batches[4]), START_MS, 6).duplicate


def test_an_old_mark_proves_nothing_about_a_log_that_was_cut():
    world = World()
    log = world.log(config=SMALL)
    fill(log, 20)
    assert world.sync(log) is None
    log.truncate(5)
    world.background.drain()
    fill(log, 2)
    world.power_loss("none")
    log = world.log(config=SMALL)
    assert log.written_offset == 5, "the mark of twenty is from before the cut"
    assert "log.damage" not in world.kinds()


def test_power_loss_at_any_moment_of_a_cut_leaves_the_old_or_the_new_end():
    for change in range(1, 60):
        for keep in ("none", "all", "some"):
            world = World()
            log = world.log(config=SMALL)
            written = fill(log, 20)
            assert world.sync(log) is None
            world.disk.stop_at(world.disk.changes + change)
            try:
                log.truncate(6)
                world.background.drain()
                world.disk.stop_at(-1)
            except PowerLoss:
                pass
            world.power_loss(keep)
            log = world.log(config=SMALL)
            assert log.written_offset in (6, 20)
            assert read_all(log) == b"".join(written[: log.written_offset])
            assert "log.damage" not in world.kinds(), world.events


def test_a_cut_waits_for_the_round_that_is_on_its_way():
    world = World()
    log = world.log(config=SMALL)
    fill(log, 3)
    told: list[object] = []
    log.when_synced(3, lambda error: told.append(("synced", error)))
    log.truncate(1, lambda error: told.append(("cut", error)))
    assert log.written_offset == 3
    world.background.drain()
    assert told == [("synced", None), ("cut", None)]
    assert log.written_offset == 1
    assert read_now(log, 0).next_offset == 1


def test_a_cut_never_waits_for_the_disk_on_the_loop():
    """Whatever is asked of the disk is asked by the background; what comes back to the loop touches memory alone."""
    world = World()
    log = world.log(config=SMALL)
    fill(log, 20)
    assert world.sync(log) is None
    told: list[HeadraceError | None] = []

    def asked() -> tuple[int, int]:
        return world.disk.changes, world.disk.bytes_read

    before = asked()
    log.truncate(6, told.append)
    while not told:
        assert asked() == before
        world.background.work()
        before = asked()
        world.background.tell()
    assert asked() == before
    assert told == [None] and log.written_offset == 6


def test_while_its_end_is_cut_off_a_log_refuses_everything_and_then_goes_on():
    world = World()
    log = world.log(config=SMALL)
    written = fill(log, 20)
    assert world.sync(log) is None
    told: list[HeadraceError | None] = []
    refused: list[HeadraceError | None] = []
    log.truncate(6, told.append)
    while not told:
        with pytest.raises(HeadraceError, match="being cut off"):
            append(log, batch())
        with pytest.raises(HeadraceError, match="being cut off"):
            log.read(0, 100)
        with pytest.raises(HeadraceError, match="being cut off"):
            log.delete_records(3)
        assert log.apply_retention(START_MS * 2) == 0
        log.truncate(2, refused.append)
        log.snapshot()
        world.background.step()
    assert told == [None]
    assert len(refused) == 4, "one for each step on the disk"
    assert all("being cut off" in str(error) for error in refused)
    world.background.drain()
    assert read_all(log) == b"".join(written[:6])
    more = fill(log, 3)
    world.restart()
    log = world.log(config=SMALL)
    assert read_all(log) == b"".join(written[:6] + more)


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("how", ["close", "stop", "delete"])
def test_a_log_that_is_closed_while_its_end_is_cut_off_has_the_old_or_the_new_end(how, steps):
    world = World()
    log = world.log(config=SMALL)
    written = fill(log, 20)
    assert world.sync(log) is None
    told: list[HeadraceError | None] = []
    log.truncate(6, told.append)
    for _ in range(steps):
        if world.background.waiting:
            world.background.step()
    if how == "close":
        log.close()
        world.background.drain()
    elif how == "stop":
        world.store.drain(lambda: None)
        world.background.drain()
        world.restart()
    else:
        world.store.delete_folder(log.folder)
        world.background.drain()
    assert len(told) == 1
    log = world.log(config=SMALL)
    if how == "delete":
        assert log.written_offset == 0
    else:
        assert log.written_offset in (6, 20)
        assert read_all(log) == b"".join(written[: log.written_offset])
    assert world.kinds() == []


def test_a_read_that_was_on_its_way_finds_no_damage_where_the_end_was_cut_off():
    world = World()
    log = world.log(config=LogConfig(segment_bytes=1 << 20, index_interval_bytes=300, tail_bytes=0))
    fill(log, 20)
    assert world.sync(log) is None
    read = FileRead(world.files, log.segments[-1], Wish(15, 1000, 20, True), log.holes, log._on_damage, 300)
    log.truncate(6)
    world.background.drain()
    with pytest.raises(OffsetOutOfRange):
        read.run()
    assert not log.holes and "log.damage" not in world.kinds()
