"""Synced bytes that changed on the disk: reported, fenced off, never cut; everything else stays readable."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.errors import DamagedRange, HeadraceError, StorageFailed
from headrace.log.format import SNAPSHOT
from headrace.log.reader import FileRead
from headrace.testing.disk import SimulatedDisk
from tests.log.damaged import PLAIN, SIZE, SMALL, path, position, surviving, synced_world
from tests.log.kit import World, append, batch, fill, joined, read_all, read_now


@pytest.mark.parametrize("at", [3, 9, 13, 16, 18, 30, 100, SIZE - 1])
@pytest.mark.parametrize("number", [0, 7, 19])
def test_one_flipped_bit_below_the_mark_costs_one_batch(number, at):
    world, _ = synced_world()
    size = len(world.disk.contents(path(world)))
    world.crash()
    world.disk.flip_bit(path(world), position(number) + at, 5)
    log = world.log(config=PLAIN)
    assert log.written_offset == 20, "proven offsets are never given out again"
    if at == 13:  # the leader epoch: the one field that nothing covers
        assert surviving(log) == list(range(20))
        return
    assert "log.damage" in world.kinds()
    assert surviving(log) == [n for n in range(20) if n != number]
    assert len(world.disk.contents(path(world))) == size, "nothing was cut"
    with pytest.raises(DamagedRange) as caught:
        read_now(log, number)
    assert caught.value.next_offset == number + 1


@pytest.mark.parametrize("ending", ["looked", "stopped"])
def test_after_a_power_loss_damage_is_told_from_a_torn_tail(ending):
    """What proves that it was synced is synced itself: once a second, and at a stop."""
    world, _ = synced_world()
    if ending == "looked":
        world.store.tick()
        world.background.drain()
        world.power_loss("none")
    else:
        world.stop()
        world.power_loss("none")
    world.disk.flip_bit(path(world), position(7) + 100, 5)
    log = world.log(config=PLAIN)
    assert log.written_offset == 20
    assert "log.damage" in world.kinds()
    assert surviving(log) == [n for n in range(20) if n != 7]


def test_a_power_loss_before_that_leaves_the_first_bad_byte_as_the_end():
    """The limit of it: damage to what was synced within the last second before a power loss looks like a torn tail."""
    world, _ = synced_world()
    world.power_loss("none")
    world.disk.flip_bit(path(world), position(7) + 100, 5)
    log = world.log(config=PLAIN)
    assert log.written_offset == 7
    assert "log.torn" in world.kinds()


@given(
    flips=st.lists(st.tuples(st.integers(0, 19), st.integers(0, SIZE - 1), st.integers(0, 7)), min_size=1, max_size=4),
    ending=st.sampled_from(["killed", "stopped"]),
    tail=st.integers(0, 4),
)
@example(flips=[(5, 0, 0), (6, 7, 0)], ending="killed", tail=0).via("the sixth passed for the seventh")
@example(flips=[(5, 0, 0), (7, 7, 3)], ending="killed", tail=0).via("the seventh has an offset that cannot be")
def test_flipped_bits_cost_their_own_batches_and_no_other(flips, ending, tail):
    """Wherever they hit, whether recovery or a reader meets them, and whatever unsynced tail follows."""
    world, written = synced_world()
    if ending == "stopped":
        world.store.services.logs[world.folder()].snapshot()
        world.background.drain()
    written += fill(world.store.services.logs[world.folder()], tail)
    world.crash()
    for number, at, bit in flips:
        world.disk.flip_bit(path(world), position(number) + at, bit)
    log = world.log(config=PLAIN)
    hit = {number for number, _, _ in flips}
    found = surviving(log)
    assert set(range(20 + tail)) - hit <= set(found) <= set(range(20 + tail))
    assert log.written_offset == 20 + tail
    for offset in set(found) - hit:
        assert joined(read_now(log, offset, 1)) == written[offset]
    append(log, batch())
    assert surviving(log) == [*found, 20 + tail]


def test_the_log_goes_on_after_damage_and_the_hole_is_remembered():
    world, _ = synced_world()
    world.crash()
    world.disk.flip_bit(path(world), position(19) + 100)
    log = world.log(config=PLAIN)
    append(log, batch())
    assert [segment.base for segment in log.segments] == [0, 20], "nothing true follows: a fresh segment"
    assert world.sync(log) is None
    told = json.loads(world.disk.contents(path(world, 0, ".damage")))
    assert [(hole["offset"], hole["next_offset"]) for hole in told] == [(19, 20)]
    for _ in range(2):
        world.power_loss("none")
        world.events.clear()
        log = world.log(config=PLAIN)
        assert surviving(log) == [*range(19), 20]
    assert not world.events, "what is known is not news"


def test_damage_is_found_again_when_everything_that_knew_of_it_is_gone():
    world, _ = synced_world()
    world.crash()
    world.disk.flip_bit(path(world), position(5) + 100)
    log = world.log(config=PLAIN)
    append(log, batch())
    assert world.sync(log) is None
    world.crash()
    world.files.remove(f"{world.folder()}/{SNAPSHOT}")
    world.files.remove(path(world, 0, ".damage"))
    log = world.log(config=PLAIN)
    assert surviving(log) == [n for n in range(21) if n != 5]


def test_damage_in_a_sealed_segment_is_found_by_the_reader():
    world, _ = synced_world(40, SMALL)
    world.stop()
    base = 8
    world.disk.flip_bit(path(world, base), position(1) + 100)
    world.start()
    log = world.log(config=SMALL)
    assert "log.damage" not in world.kinds(), "opening does not read sealed segments"
    assert surviving(log) == [n for n in range(40) if n != base + 1]
    assert world.kinds() == ["log.damage"]
    world.restart()
    world.events.clear()
    assert surviving(world.log(config=SMALL)) == [n for n in range(40) if n != base + 1]
    assert not world.events


def test_a_hole_that_could_not_be_written_down_is_when_it_is_found_again():
    world, _ = synced_world()
    log = world.store.services.logs[world.folder()]
    world.disk.flip_bit(path(world), position(7) + 80, 0)
    world.disk.fill(0)
    assert surviving(log) == [n for n in range(20) if n != 7]
    assert world.kinds() == ["log.damage", "log.not-saved"]
    world.disk.empty()
    (hole,) = log.holes
    log._on_damage(hole)
    assert world.kinds() == ["log.damage", "log.not-saved"], "told once"
    assert world.files.exists(path(world, 0, ".damage"))


def test_damage_that_is_found_again_is_told_and_written_down_once():
    world, _ = synced_world()
    log = world.store.services.logs[world.folder()]
    world.disk.flip_bit(path(world), position(7) + 80, 0)
    assert surviving(log) == [n for n in range(20) if n != 7]
    (hole,) = log.holes
    changes = world.disk.changes
    log._on_damage(hole)
    assert (world.kinds(), world.disk.changes) == (["log.damage"], changes)


def test_a_torn_tail_beyond_the_mark_is_cut_and_reported():
    world, written = synced_world()
    log = world.store.services.logs[world.folder()]
    fill(log, 3)
    world.crash()
    world.disk.tear(path(world), position(21) + 50)
    log = world.log(config=PLAIN)
    assert world.kinds() == ["log.torn"]
    assert world.events[0][1]["bytes"] == 50
    assert log.written_offset == 21
    assert read_all(log).startswith(b"".join(written))
    append(log, batch())
    assert surviving(log) == list(range(22))


def test_a_damaged_segment_header_is_told_and_costs_no_record():
    world, written = synced_world(5)
    world.crash()
    world.disk.flip_bit(path(world), 30, 3)
    log = world.log(config=PLAIN)
    assert world.kinds() == ["log.header-damaged"]
    assert read_all(log) == b"".join(written)


def test_a_damaged_snapshot_costs_a_walk_and_nothing_else():
    world, written = synced_world(40, SMALL)
    world.restart()
    log = world.log(config=SMALL)
    log.snapshot()
    world.background.drain()
    log.delete_records(10)
    world.background.drain()
    world.crash()
    world.disk.flip_bit(f"{world.folder()}/{SNAPSHOT}", 40)
    log = world.log(config=SMALL)
    assert world.kinds() == ["log.snapshot-lost"]
    assert log.written_offset == 40
    assert log.start_offset == 8, "the segment's start: where within it the log began is what the snapshot knew"
    assert read_all(log) == b"".join(written[8:])


def test_a_damaged_snapshot_together_with_damage_cuts_nothing_but_the_last_segment():
    world, _ = synced_world(40, SMALL)
    world.restart()
    world.log(config=SMALL)
    world.crash()
    world.disk.flip_bit(f"{world.folder()}/{SNAPSHOT}", 40)
    world.disk.flip_bit("/data/synced", 60)
    world.disk.flip_bit(path(world, 8), position(1) + 100)
    world.crash()
    log = world.log(config=SMALL)
    assert surviving(log) == [n for n in range(40) if n != 9]


@pytest.mark.parametrize("how", ["missing", "flipped", "empty"])
def test_an_index_that_is_lost_or_damaged_is_built_anew(how):
    world, written = synced_world(40, SMALL)
    world.restart()
    for base in (0, 4, 8):
        name = path(world, base, ".index")
        assert world.files.exists(name)
        if how == "missing":
            world.files.remove(name)
        elif how == "flipped":
            world.disk.flip_bit(name, 30)
        else:
            world.disk.tear(name, 0)
    log = world.log(config=SMALL)
    assert read_all(log) == b"".join(written)
    assert not world.events


def test_an_index_that_lies_is_not_believed():
    world, written = synced_world(40, SMALL)
    world.restart()
    log = world.log(config=SMALL)
    assert read_now(log, 9).size
    index = log.segments[2].index
    assert index is not None
    index.positions[1] += 7
    assert joined(read_now(log, 10, 1)) == written[10]
    index = log.segments[2].index
    assert index is not None
    index.offsets[1] -= 1
    assert joined(read_now(log, 9, 1)) == written[9]
    assert joined(read_now(log, 11, 1)) == written[11]
    assert not world.events


def test_a_failed_sync_fails_the_log_until_it_is_opened_anew():
    world = World()
    log = world.log(config=PLAIN)
    fill(log, 3)
    assert world.sync(log) is None
    written = fill(log, 2)
    told: list[HeadraceError | None] = []
    log.when_synced(4, told.append)
    log.when_synced(5, told.append)
    world.disk.fail_syncs(1, world.folder())
    syncs = sum(line.startswith("sync") for line in world.disk.trace)
    world.background.drain()
    assert [type(error) for error in told] == [StorageFailed, StorageFailed]
    assert sum(line.startswith("sync") for line in world.disk.trace) == syncs + 1, "never tried again"
    for refused in (lambda: append(log, batch()), lambda: log.read(0, 100)):
        with pytest.raises(StorageFailed):
            refused()
    log.when_synced(5, told.append)
    assert isinstance(told[-1], StorageFailed)
    log.when_synced(3, told.append)
    assert told[-1] is None, "what was synced before still is"
    log = world.log(config=PLAIN)
    assert log.synced_offset == 5
    world.power_loss("none")
    log = world.log(config=PLAIN)
    assert read_all(log).endswith(b"".join(written)), "opening wrote it again, so the disk has it now"


def test_bytes_that_a_failed_sync_lost_are_cut_off_and_what_was_synced_stays():
    world = World(SimulatedDisk(forgets=1.0))
    log = world.log(config=PLAIN)
    written = fill(log, 3)
    assert world.sync(log) is None
    fill(log, 30)
    world.disk.fail_syncs(1, world.folder())
    assert isinstance(world.sync(log), StorageFailed)
    log = world.log(config=PLAIN)
    assert world.kinds() == ["log.failed", "log.torn"]
    assert read_all(log) == b"".join(written)
    written += fill(log, 1)
    assert world.sync(log) is None
    world.power_loss("none")
    assert read_all(world.log(config=PLAIN)) == b"".join(written)


def test_a_read_of_the_log_that_failed_notes_no_hole_in_the_one_that_came_back():
    world = World(SimulatedDisk(forgets=1.0))
    log = world.log(config=PLAIN)
    fill(log, 3)
    assert world.sync(log) is None
    fill(log, 60, 500)
    log.segments[-1].index = None  # so that a read has to wait for the disk
    slow = log.read(20, 1000)
    assert isinstance(slow, FileRead)
    world.disk.fail_syncs(1, world.folder())
    assert isinstance(world.sync(log), StorageFailed)
    log = world.log(config=PLAIN)
    assert log.written_offset < 20, "the lost end is cut off"
    with pytest.raises(StorageFailed):
        slow.run()
    fill(log, 40)
    assert world.sync(log) is None
    world.crash()
    assert surviving(world.log(config=PLAIN)) == list(range(log.written_offset))
    assert "log.damage" not in world.kinds()


class SlowDisk(SimulatedDisk):
    """While a hole is written down, the world goes on."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def rename(self, old: str, new: str) -> None:
        if new.endswith(".damage"):
            self.meanwhile()
        super().rename(old, new)


def test_a_log_that_failed_is_not_opened_anew_while_a_read_notes_a_hole_in_it():
    world = World(disk := SlowDisk())
    log = world.log(config=PLAIN)
    fill(log, 20)
    assert world.sync(log) is None
    disk.flip_bit(path(world), position(5) + 100)

    def fail() -> None:
        log.fail(StorageFailed("a test"))
        with pytest.raises(StorageFailed, match="is open, or still closing"):
            world.log(config=PLAIN)

    disk.meanwhile = fail
    with pytest.raises(DamagedRange):
        read_now(log, 5)
    assert surviving(world.log(config=PLAIN)) == [n for n in range(20) if n != 5]


def test_what_was_never_synced_is_no_damage_while_its_sync_may_have_failed():
    """A reader can be quicker than the word of the sync that lost the pages: what it meets goes with the recovery."""
    world = World()
    log = world.log(config=PLAIN)
    written = fill(log, 4)
    assert world.sync(log) is None
    written += fill(log, 4)
    world.disk.flip_bit(path(world), position(5) + 100)
    with pytest.raises(StorageFailed, match="not synced yet"):
        read_now(log, 5)
    assert not world.disk.exists(path(world, ending=".damage"))
    world.disk.fail_syncs()
    with pytest.raises(StorageFailed, match="not synced yet"):
        read_now(log, 5)  # and by that asks for the sync
    world.background.drain()
    assert log.broken
    log = world.log(config=PLAIN)
    assert read_all(log) == b"".join(written[:5])
    assert "log.damage" not in world.kinds()


def test_what_was_not_as_written_when_its_sync_succeeded_is_damage():
    world = World()
    log = world.log(config=PLAIN)
    fill(log, 8)
    world.disk.flip_bit(path(world), position(5) + 100)
    for _ in range(2):
        with pytest.raises(StorageFailed, match="not synced yet"):
            read_now(log, 5)
    world.background.drain()
    with pytest.raises(DamagedRange) as caught:
        read_now(log, 5)
    assert caught.value.next_offset == 6
    assert surviving(log) == [0, 1, 2, 3, 4, 6, 7]


def test_a_failed_sync_of_one_log_leaves_the_others_alone():
    world = World()
    logs = [world.log(name) for name in "abc"]
    told: dict[str, HeadraceError | None] = {}
    for name, log in zip("abc", logs, strict=True):
        fill(log, 1)
        log.when_synced(1, lambda error, n=name: told.update({n: error}))
    world.disk.fail_syncs(1, "/b/")
    world.background.drain()
    assert [told[name] is None for name in "abc"] == [True, False, True]


def test_a_write_that_fails_for_other_reasons_fails_the_log():
    world = World()
    log = world.log(config=PLAIN)
    written = fill(log, 2)
    world.disk.fail_writes(1, world.folder())
    with pytest.raises(StorageFailed):
        append(log, batch())
    with pytest.raises(StorageFailed):
        append(log, batch())
    log = world.log(config=PLAIN)
    assert read_all(log) == b"".join(written)


def test_what_is_written_while_a_read_waits_is_not_in_the_hole_that_it_finds():
    world = World()
    log = world.log(config=PLAIN)
    fill(log, 6)
    assert world.sync(log) is None
    world.disk.flip_bit(path(world), position(5) + 100, 1)
    read = log.read(5, 1 << 20)
    assert isinstance(read, FileRead)
    fill(log, 4)
    assert world.sync(log) is None
    with pytest.raises(DamagedRange):
        read.run()
    assert surviving(log) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    world.crash()
    assert surviving(world.log(config=PLAIN)) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
