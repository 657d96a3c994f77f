"""Pages that the disk does not read, for a moment or for good: patience first, and then what damage is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.broker.cold import AGAIN_MS
from headrace.errors import StorageFailed
from headrace.log.config import LogConfig
from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.log.patient import FORGOTTEN_S, PAGE_BYTES, PATIENCE_S
from headrace.log.reader import FileRead, ReadResult
from tests.log.damaged import PLAIN, SMALL, path, position, surviving, synced_world
from tests.log.kit import START_MS, World, append, batch, fill, joined, read_all, read_now


def test_a_disk_that_does_not_read_fails_the_read_and_not_the_log():
    world, written = synced_world(40, SMALL)
    world.restart()
    log = world.log(config=SMALL)
    world.disk.fail_reads(3, path(world, 4))
    with pytest.raises(StorageFailed):
        read_now(log, 5)
    world.disk.mend()
    assert read_all(log) == b"".join(written)


BIG = 2000  # of a record: some batches to a page, and pages without the start of one


def synced_pages() -> tuple[World, list[bytes]]:
    """Ten pages of synced batches in one segment."""
    world = World()
    log = world.log(config=PLAIN)
    written = fill(log, 20, BIG)
    assert world.sync(log) is None
    return world, written


def wait(world: World) -> None:
    world.clock.ms += int(PATIENCE_S * 1000)


def test_a_page_that_stays_unreadable_becomes_a_hole_for_the_reader():
    world, written = synced_pages()
    log = world.store.services.logs[world.folder()]
    world.disk.spoil(path(world), 5 * PAGE_BYTES)
    places = [SEGMENT_HEADER_BYTES + number * len(written[0]) for number in range(21)]
    lost = [n for n in range(20) if places[n] < 6 * PAGE_BYTES and places[n + 1] > 5 * PAGE_BYTES]
    assert 1 < len(lost) < 5
    for _ in range(5):
        assert joined(read_now(log, lost[0] - 1, 1 << 16)) == written[lost[0] - 1], "up to it all is served"
        with pytest.raises(StorageFailed):
            read_now(log, lost[0], 5000)
    assert not log.holes, "the disk may be away for a moment"
    wait(world)
    assert surviving(log) == [n for n in range(20) if n not in lost]
    assert world.kinds() == ["log.damage"]
    assert world.events[0][1] | {"folder": ""} == {
        "folder": "",
        "offset": lost[0],
        "next_offset": lost[-1] + 1,
        "why": "the disk does not read it",
    }
    world.restart()
    world.events.clear()
    assert surviving(world.log(config=PLAIN)) == [n for n in range(20) if n not in lost]
    assert not world.events


@pytest.mark.parametrize("offset", [45, 50])
@pytest.mark.parametrize("how", ["flipped", "unreadable"])
def test_an_offset_behind_a_hole_that_the_index_leads_into_is_not_called_damaged(how, offset):
    world, written = synced_world(80, LogConfig(index_interval_bytes=3000, tail_bytes=0))
    log = world.store.services.logs[world.folder()]
    index = log.segments[0].index
    assert index is not None and index.find(45) == index.find(50) == (34, position(34))
    if how == "flipped":
        world.disk.flip_bit(path(world), position(34) + 16)
    else:
        world.disk.spoil(path(world), position(34))
        assert position(34) // PAGE_BYTES < position(45) // PAGE_BYTES
        with pytest.raises(StorageFailed):
            read_now(log, offset, 1)
        wait(world)
    assert joined(read_now(log, offset, 1)) == written[offset]
    (hole,) = log.holes
    assert hole.next_offset <= offset


def test_a_page_that_reads_again_is_no_damage():
    world, written = synced_pages()
    log = world.store.services.logs[world.folder()]
    for _ in range(3):
        world.disk.fail_reads(9, ".log")
        with pytest.raises(StorageFailed):
            read_now(log, 10, 5000)
        world.disk.mend()
        assert read_all(log) == b"".join(written)
        world.clock.ms += int(FORGOTTEN_S * 1000) + 1
    assert not world.events


def test_two_moments_without_the_disk_are_no_damage_when_the_page_was_read_in_between():
    """From memory too, where it may be well for as long as the disk is not."""
    world, _ = synced_pages()
    log = world.store.services.logs[world.folder()]

    def moment() -> None:
        world.disk.fail_reads(9, ".log")
        with pytest.raises(StorageFailed):
            read_now(log, 10, 5000)
        world.disk.mend()

    moment()
    for _ in range(4):
        world.clock.ms += int(PATIENCE_S * 400)
        assert read_now(log, 10, 5000).size
        moment()
    assert not log.holes and not world.events


def test_two_moments_without_the_disk_at_two_places_of_one_stretch_are_no_damage():
    world, written = synced_pages()
    log = world.store.services.logs[world.folder()]
    for offset in (4, 12):
        world.disk.fail_reads(20, ".log")
        with pytest.raises(StorageFailed):
            read_now(log, offset, 1)
        world.disk.mend()
        assert joined(read_now(log, offset, 1)) == written[offset]
        wait(world)
    assert not log.holes
    assert read_all(log) == b"".join(written)


def spoil_stretch(world: World, step: int) -> None:
    for page in range(2, 10, step):
        world.disk.spoil(path(world), page * PAGE_BYTES)


def asked_until_it_answers(world: World, ask: Callable[[], object], every_s: float = 10) -> float:
    """How many seconds that took."""
    for times in range(1000):
        try:
            ask()
        except StorageFailed:
            world.clock.ms += int(every_s * 1000)
        else:
            return times * every_s
    raise AssertionError("there is no answer")


@pytest.mark.parametrize("step", [1, 2])
def test_a_bad_stretch_takes_no_longer_than_a_bad_page(step):
    world, _ = synced_pages()
    log = world.store.services.logs[world.folder()]
    spoil_stretch(world, step)
    assert asked_until_it_answers(world, lambda: surviving(log)) == PATIENCE_S
    left = surviving(log)
    world.crash()
    assert asked_until_it_answers(world, lambda: world.log(config=PLAIN)) == 0, "what is known is not asked again"
    log = world.store.services.logs[world.folder()]
    assert (log.written_offset, surviving(log)) == (20, left)


@pytest.mark.parametrize("step", [1, 2])
def test_nor_does_it_when_a_log_is_opened(step):
    world, _ = synced_pages()
    world.crash()
    spoil_stretch(world, step)
    assert asked_until_it_answers(world, lambda: world.log(config=PLAIN)) == PATIENCE_S
    assert world.store.services.logs[world.folder()].written_offset == 20


@pytest.mark.parametrize("every_s", [180, AGAIN_MS / 1000])
def test_who_asks_seldom_gets_an_answer_too(every_s):
    world, _ = synced_pages()
    world.crash()
    spoil_stretch(world, 1)
    took_s = asked_until_it_answers(world, lambda: world.log(config=PLAIN), every_s)
    assert every_s < took_s <= 3 * every_s, "two moments without the disk are not a long one"


def test_a_segment_with_a_known_hole_is_read_from_memory_like_any_other():
    world, _ = synced_pages()
    log = world.store.services.logs[world.folder()]
    spoil_stretch(world, 1)
    with pytest.raises(StorageFailed):
        read_all(log)
    assert isinstance(log.read(0, 400), FileRead), "the disk may be away for a moment"
    wait(world)
    left = surviving(log)
    assert isinstance(log.read(left[-1], 400), ReadResult)
    assert surviving(log) == left
    assert isinstance(log.read(0, 400), ReadResult)


def test_a_moment_without_the_disk_is_forgotten_when_nobody_asks_again():
    world, written = synced_pages()
    log = world.store.services.logs[world.folder()]
    world.disk.fail_reads(20, ".log")
    with pytest.raises(StorageFailed):
        read_all(log)
    world.disk.mend()
    assert isinstance(log.read(19, 400), FileRead)
    world.clock.ms += int(FORGOTTEN_S * 1000) + 1
    assert isinstance(log.read(19, 400), ReadResult)
    assert read_all(log) == b"".join(written)


@pytest.mark.parametrize("how", ["flipped", "unreadable"])
def test_a_lookup_by_time_goes_past_a_hole(how):
    world = World()
    log = world.log(config=PLAIN)
    for number in range(20):
        append(log, batch(b"x" * BIG, timestamp_ms=START_MS + number))
    assert world.sync(log) is None
    if how == "flipped":
        world.disk.flip_bit(path(world), 5 * PAGE_BYTES + 1000)
    else:
        world.disk.spoil(path(world), 5 * PAGE_BYTES)
        with pytest.raises(StorageFailed):
            log.offset_for_timestamp(START_MS + 10)
        with pytest.raises(StorageFailed):
            read_all(log)
        wait(world)
    left = surviving(log)
    assert log.holes
    for number in range(20):
        offset = min(offset for offset in left if offset >= number)
        assert log.offset_for_timestamp(START_MS + number) == (offset, START_MS + offset)
    assert log.max_timestamp() == (19, START_MS + 19)


@pytest.mark.parametrize("pages", [1, 3])
def test_a_moment_without_the_disk_costs_nothing_beside_a_hole(pages):
    world, _ = synced_world(20 * pages)
    log = world.store.services.logs[world.folder()]
    if pages == 1:
        world.disk.flip_bit(path(world), position(5) + 100)
    else:
        world.disk.spoil(path(world), PAGE_BYTES)
        with pytest.raises(StorageFailed):
            read_all(log)
        wait(world)
    left = surviving(log)
    (hole,) = log.holes
    for offset in (hole.offset - 1, hole.next_offset):
        world.disk.fail_reads(9, ".log")
        with pytest.raises(StorageFailed):
            read_now(log, offset, 1)
        world.disk.mend()
    assert list(log.holes) == [hole]
    assert surviving(log) == left
    world.restart()
    assert surviving(world.log(config=PLAIN)) == left


def test_a_hole_in_what_was_not_synced_is_one_after_a_sync_and_does_not_keep_a_log_closed_after_a_kill():
    world, _ = synced_pages()
    log = world.store.services.logs[world.folder()]
    fill(log, 20, BIG)  # not synced
    world.disk.spoil(path(world), 14 * PAGE_BYTES)
    with pytest.raises(StorageFailed):
        read_all(log)
    wait(world)
    for _ in range(2):
        with pytest.raises(StorageFailed, match="not synced yet"):
            read_all(log)  # the second one has it synced
    world.background.drain()
    left = surviving(log)
    assert 34 < len(left) < 40
    world.crash()
    again = world.log(config=PLAIN)
    assert again.written_offset == 40
    assert surviving(again) == left


def test_a_page_that_stays_unreadable_below_the_mark_does_not_keep_a_log_closed():
    world, _ = synced_pages()
    world.crash()
    world.disk.spoil(path(world), 5 * PAGE_BYTES)
    for _ in range(3):
        with pytest.raises(StorageFailed):
            world.log(config=PLAIN)
    wait(world)
    log = world.log(config=PLAIN)
    assert world.kinds() == ["log.damage"]
    assert log.written_offset == 20
    found = surviving(log)
    assert 15 < len(found) < 20
    assert found[:3] == [0, 1, 2]
    append(log, batch())
    assert surviving(log) == [*found, 20]
    assert len(world.disk.contents(path(world))) > 20 * BIG, "nothing was cut"


def test_a_segment_header_that_does_not_read_keeps_no_log_closed():
    world, _ = synced_pages()
    world.crash()
    world.disk.spoil(path(world), 0)
    with pytest.raises(StorageFailed):
        world.log(config=PLAIN)
    wait(world)
    log = world.log(config=PLAIN)
    assert world.kinds() == ["log.header-damaged", "log.damage"]
    assert log.written_offset == 20
    assert surviving(log) == list(range(2, 20))
    world.restart()
    assert surviving(world.log(config=PLAIN)) == list(range(2, 20))


@pytest.mark.parametrize("page", [0, 5])
def test_nothing_that_may_be_acknowledged_is_cut_because_it_does_not_read(page):
    world, written = synced_pages()
    world.crash()
    world.disk.remove("/data/synced")  # as a power loss may: what was synced last is not proven
    world.crash()
    world.disk.spoil(path(world), page * PAGE_BYTES)
    for _ in range(3):
        with pytest.raises(StorageFailed):
            world.log(config=PLAIN)
        wait(world)
    assert world.disk.contents(path(world)).endswith(b"".join(written))
    assert not world.events


def test_nor_because_the_page_that_the_proof_ends_in_does_not_read():
    world, written = synced_pages()
    world.restart()
    log = world.log(config=PLAIN)
    end = log.segments[-1].size
    assert end % PAGE_BYTES, "the page holds bytes of both"
    written += fill(log, 10, BIG)
    assert world.sync(log) is None
    world.power_loss("none")  # takes the last mark of the journal
    world.disk.spoil(path(world), end)
    for _ in range(3):
        with pytest.raises(StorageFailed):
            world.log(config=PLAIN)
        wait(world)
    assert world.disk.contents(path(world)).endswith(b"".join(written))
    assert not world.events


def test_a_last_page_that_stays_unreadable_keeps_no_log_closed_when_all_of_it_is_proven():
    world, _ = synced_pages()
    world.crash()
    world.disk.spoil(path(world), len(world.disk.contents(path(world))) - 1)
    with pytest.raises(StorageFailed):
        world.log(config=PLAIN)
    wait(world)
    log = world.log(config=PLAIN)
    assert log.written_offset == 20
    found = surviving(log)
    assert 15 < len(found) < 20
    append(log, batch())
    assert surviving(log) == [*found, 20]
