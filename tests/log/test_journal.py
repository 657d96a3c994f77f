"""What the journal proves outlives a power loss, whatever the disk and the moment do to its file."""

from __future__ import annotations

import pytest

from headrace.log import journal as journal_module
from headrace.log.format import MARK_BYTES, NEW, Mark
from headrace.log.journal import MOST_RATIO, ROTATE_BYTES, Journal, load_marks
from headrace.testing.disk import PowerLoss, SimulatedDisk
from headrace.testing.platter import Keep
from tests.log.damaged import PLAIN, path, position, synced_world
from tests.log.kit import Steps, World, fill

PATH = "/data/synced"


def look(world: World) -> None:
    world.store.tick()
    world.background.drain()


def assert_it_is_known_what_was_synced(world: World) -> None:
    """After a power loss a changed byte is damage, not the end of the log."""
    world.power_loss("none")
    world.disk.flip_bit(path(world), position(7) + 100, 5)
    log = world.log(config=PLAIN)
    assert log.written_offset == 20
    assert "log.damage" in world.kinds()


def mark(number: int, offset: int = 1) -> Mark:
    return Mark(bytes([number]) * 20, 0, 0, 300, offset)


def an_empty_one(seed: int = 0) -> tuple[SimulatedDisk, Journal]:
    disk = SimulatedDisk(seed)
    disk.make_directory("/data")
    disk.sync_directory("/")
    return disk, Journal(disk, PATH)


def kept(disk: SimulatedDisk) -> dict[bytes, int]:
    disk.power_loss("none")
    return {log_id[:1]: found.next_offset for log_id, found in load_marks(disk, PATH).items()}


@pytest.mark.parametrize("then", ["look", "stop"])
def test_a_sync_that_failed_is_not_tried_again_on_the_same_file(then: str) -> None:
    """The kernel takes pages that it could not write for clean: a second sync returns without them."""
    world, _ = synced_world()
    world.disk.fail_syncs(1, PATH)
    look(world)
    assert world.disk.trace[-1] == f"failed sync {PATH}"
    if then == "look":
        look(world)
        look(world)  # which makes the new file's name durable
    else:
        world.stop()
    assert_it_is_known_what_was_synced(world)


def test_a_write_that_failed_is_made_up_for() -> None:
    world = World()
    log = world.log(config=PLAIN)
    fill(log, 20)
    world.disk.fail_writes(1, PATH)
    assert world.sync(log) is None
    look(world)
    look(world)
    assert_it_is_known_what_was_synced(world)


def test_what_a_recovery_proved_need_not_wait_for_the_next_sync() -> None:
    world = World()
    fill(world.log(config=PLAIN), 20)
    world.crash()
    log = world.log(config=PLAIN)
    assert log.synced_offset == 20
    look(world)
    assert_it_is_known_what_was_synced(world)


def test_a_stop_does_not_rely_on_a_sync_that_is_under_way() -> None:
    world, _ = synced_world()
    world.store.tick()
    world.store.close()
    assert_it_is_known_what_was_synced(world)


def test_a_journal_that_began_on_a_full_disk_keeps_its_first_mark() -> None:
    """Where the header would be there is none: nothing is read from its place."""
    disk = SimulatedDisk()
    disk.make_directory("/data")
    disk.fail_writes(1, PATH)
    journal = Journal(disk, PATH)
    journal.append([mark(5)])
    assert load_marks(disk, PATH) == {bytes([5]) * 20: mark(5)}


def test_what_comes_while_a_new_file_is_made_is_in_it() -> None:
    disk, journal = an_empty_one()
    background = Steps()
    journal.append(mark(number % 7, number) for number in range(30_000))
    journal.keep(background)
    journal.append([mark(1, 77_777)])
    background.work()
    journal.append([mark(8, 88_888)])
    background.tell()
    assert len(disk.contents(PATH)) < 1000
    journal.append([mark(9, 99_999)])
    journal.keep(background)
    background.drain()
    found = kept(disk)
    assert [found[bytes([number])] for number in (0, 1, 8, 9)] == [29_995, 77_777, 88_888, 99_999]


def test_what_a_file_that_is_too_large_takes_no_more_is_in_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was refused by the old file, and came too late for what the new one was begun with."""
    monkeypatch.setattr(journal_module, "ROTATE_BYTES", 10 * MARK_BYTES)
    monkeypatch.setattr(journal_module, "MOST_RATIO", 1)
    disk, journal = an_empty_one()
    background = Steps()
    for number in range(12):
        journal.append([mark(1, number)])
    journal.keep(background)
    journal.append([mark(2, 22)])
    background.work()
    journal.append([mark(3, 33)])
    journal.forget([bytes([1]) * 20])
    background.tell()
    journal.keep(background)
    background.drain()
    assert kept(disk) == {bytes([2]): 22, bytes([3]): 33}


def test_a_new_file_whose_first_sync_fails_while_it_takes_the_place_is_not_trusted() -> None:
    disk, journal = an_empty_one()
    background = Steps()
    journal.append(mark(number % 7, number) for number in range(30_000))
    journal.keep(background)
    background.work()
    journal.append([mark(8, 88_888)])
    rename = disk.rename

    def rename_and_meanwhile_somebody_syncs(old: str, new: str) -> None:
        rename(old, new)
        disk.fail_syncs(1, PATH)
        with pytest.raises(OSError, match="sync"):
            journal.sync()

    disk.rename = rename_and_meanwhile_somebody_syncs  # type: ignore[method-assign]
    background.tell()
    disk.rename = rename  # type: ignore[method-assign]
    for _ in range(2):
        journal.keep(background)
        background.drain()
    assert kept(disk)[bytes([8])] == 88_888


def test_a_file_that_takes_the_place_of_one_that_is_being_synced_is_synced_as_well() -> None:
    """Who waits for the end of a deleted log must not be told of the old file's sync."""
    disk, journal = an_empty_one()
    background = Steps()
    journal.append(mark(number % 7, number) for number in range(30_000))
    journal.keep(background)
    background.work()
    renew, datasync = background.results.pop(), disk.datasync
    taken = []

    def sync_and_then_it_takes_the_place(handle: int) -> None:
        datasync(handle)
        if not taken:
            taken.append(True)
            journal.forget([bytes([3]) * 20])
            renew()

    disk.datasync = sync_and_then_it_takes_the_place  # type: ignore[method-assign]
    journal.sync()
    found = kept(disk)
    assert bytes([3]) not in found
    assert found[bytes([4])] == 29_999


@pytest.mark.parametrize("keep", ["none", "some", "all"])
@pytest.mark.parametrize("change", range(24))
def test_a_power_loss_at_any_change_leaves_what_was_durable_before(
    change: int, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new file takes the old one's place, twice: what was synced long ago is in whichever is there."""
    monkeypatch.setattr(journal_module, "ROTATE_BYTES", 10 * MARK_BYTES)
    disk, journal = an_empty_one(seed=change)
    journal.append([mark(9)])
    journal.sync()
    background = Steps()
    disk.stop_at(disk.changes + 1 + change)
    try:
        for _ in range(2):
            journal.append(mark(number % 7, number) for number in range(100))
            for _ in range(2):
                journal.keep(background)
                background.work()
                journal.append([mark(8)])
                background.tell()
        journal.close()
    except PowerLoss:
        pass
    else:
        assert change == 23, "there are no more changes than these"
    disk.power_loss(keep)
    assert bytes([9]) * 20 in load_marks(disk, PATH)


def test_a_disk_that_lets_no_new_file_be_made_does_not_make_it_grow_for_ever() -> None:
    disk, journal = an_empty_one()
    background = Steps()
    disk.fail_syncs(1_000, PATH + NEW)
    for number in range(MOST_RATIO * ROTATE_BYTES // MARK_BYTES // 1000 + 20):
        journal.append(mark(number % 7, number) for _ in range(1000))
        journal.keep(background)
        background.drain()
    assert ROTATE_BYTES < len(disk.contents(PATH)) <= MOST_RATIO * ROTATE_BYTES + 1000 * MARK_BYTES
