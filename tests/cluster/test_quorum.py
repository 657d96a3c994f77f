"""The metadata log of a quorum of one, on a disk that loses what was not synced."""

from __future__ import annotations

import errno

import pytest

from headrace.cluster import quorum as quorums
from headrace.cluster.quorum import Quorum
from headrace.cluster.records import ClusterCreated, MetadataRecord, NodeRegistered, ProducerIdsReserved, TopicCreated
from headrace.cluster.reserve import RESERVE_BYTES
from headrace.errors import DiskFull, FormatTooNew, HeadraceError, LimitReached, StorageFailed
from headrace.log.config import ignore_error
from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.testing.disk import PowerLoss, SimulatedDisk
from tests.log.kit import World
from tests.log.test_handles import FewHandles


def start(world: World) -> Quorum:
    return Quorum(world.store, world.files, world.clock, 0)


def reserve(next_id: int) -> list[MetadataRecord]:
    return [ProducerIdsReserved(0, next_id)]


def propose(world: World, quorum: Quorum, next_id: int) -> HeadraceError | None:
    told: list[HeadraceError | None] = []
    quorum.propose(lambda _: reserve(next_id), told.append)
    world.background.drain()
    (answer,) = told
    return answer


def propose_much(world: World, quorum: Quorum) -> HeadraceError | None:
    told: list[HeadraceError | None] = []
    config = {"much": "x" * RESERVE_BYTES}
    quorum.propose(lambda _: [TopicCreated(bytes(16), "t", [[0]], config)], told.append)
    world.background.drain()
    (answer,) = told
    return answer


def test_an_entry_is_applied_only_after_it_was_synced() -> None:
    world = World()
    quorum = start(world)
    told: list[HeadraceError | None] = []
    quorum.propose(lambda _: reserve(5), told.append)
    assert quorum.image.next_producer_id == 0
    assert told == []
    world.background.drain()
    assert quorum.image.next_producer_id == 5
    assert told == [None]


@pytest.mark.parametrize("keep", ["none", "some", "all"])
def test_what_was_told_survives_power_loss(keep: str) -> None:
    world = World()
    quorum = start(world)
    for number in range(1, 20):
        assert propose(world, quorum, number) is None
    world.power_loss(keep)
    again = start(world)
    assert again.image.next_producer_id == 19
    assert again.index == 19
    assert again.hard_state.term == quorum.hard_state.term + 1


def test_the_next_proposal_is_made_from_the_image_that_has_the_one_before() -> None:
    world = World()
    quorum = start(world)
    seen: list[int] = []

    def more(image: object) -> list[MetadataRecord]:
        seen.append(quorum.image.next_producer_id)
        return reserve(quorum.image.next_producer_id + 1)

    for _ in range(3):
        quorum.propose(more, lambda _: None)
    world.background.drain()
    assert seen == [0, 1, 2]


def test_a_decision_that_refuses_leaves_nothing_behind_and_lets_the_next_go_on() -> None:
    world = World()
    quorum = start(world)
    told: list[HeadraceError | None] = []

    def refuse(_: object) -> list[MetadataRecord]:
        raise LimitReached("enough")

    quorum.propose(refuse, told.append)
    quorum.propose(lambda _: [], told.append)
    quorum.propose(lambda _: reserve(3), told.append)
    world.background.drain()
    assert isinstance(told[0], LimitReached)
    assert told[1:] == [None, None]
    assert quorum.index == 1


def test_a_snapshot_bounds_the_replay_and_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorums, "SNAPSHOT_ENTRIES", 10)
    world = World()
    quorum = start(world)
    quorum.propose(lambda _: [ClusterCreated("c", 1), NodeRegistered(0, 1, {"kafka": "h:1"})], ignore_error)
    world.background.drain()
    for number in range(1, 35):
        propose(world, quorum, number)
    world.background.drain()
    world.power_loss("none")
    again = start(world)
    assert again.image.save() == quorum.image.save()
    assert again.index == quorum.index == 35


def test_a_snapshot_is_saved_off_the_loop_and_entries_go_on_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorums, "SNAPSHOT_ENTRIES", 3)
    world = World()
    quorum = start(world)
    image = f"{world.root}/metadata/image"
    told: list[HeadraceError | None] = []
    for number in range(1, 6):
        quorum.propose(lambda _, number=number: reserve(number), told.append)
    while len(told) < 3:
        world.background.step()
    assert not world.files.exists(image), "nobody waits for the disk on the loop"
    world.background.drain()
    assert told == [None] * 5
    assert world.files.exists(image)
    world.disk.fail_syncs(1, "/image")
    for number in range(6, 9):
        assert propose(world, quorum, number) is None
    world.power_loss("none")
    assert start(world).image.next_producer_id == 8


def test_power_loss_at_every_change_keeps_every_entry_that_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorums, "SNAPSHOT_ENTRIES", 4)
    change = 0
    while True:
        change += 1
        world = World(SimulatedDisk(seed=change))
        world.disk.stop_at(world.disk.changes + change)
        kept = 0
        try:
            quorum = start(world)
            for number in range(1, 12):
                if propose(world, quorum, number) is None:
                    kept = number
            quorum.close()
            return  # the whole story without an end: every position was tried
        except PowerLoss:
            pass
        world.power_loss("some")
        assert start(world).image.next_producer_id >= kept, f"at change {change}"


def test_a_failed_sync_is_told_and_nothing_is_applied() -> None:
    world = World()
    quorum = start(world)
    world.disk.fail_syncs(1)
    assert isinstance(propose(world, quorum, 7), StorageFailed)
    assert quorum.image.next_producer_id == 0


def test_after_a_failed_sync_the_log_is_opened_anew_and_goes_on() -> None:
    world = World()
    quorum = start(world)
    assert propose(world, quorum, 3) is None
    world.disk.fail_syncs(1)
    assert isinstance(propose(world, quorum, 7), StorageFailed)
    assert isinstance(propose(world, quorum, 8), StorageFailed)
    quorum.recover(world.background)
    world.background.drain()
    assert quorum.image.next_producer_id == 7  # it was written, and is synced now
    assert propose(world, quorum, 9) is None
    quorum.recover(world.background)
    assert not world.background.waiting
    world.power_loss("none")
    assert start(world).image.next_producer_id == 9


def test_a_start_on_a_full_disk_has_room_for_what_it_writes_as_often_as_it_comes() -> None:
    world = World()
    assert propose(world, start(world), 1) is None
    for life in range(2, 12):
        world.power_loss("all")
        world.disk.fill(0)
        quorum = start(world)
        assert propose(world, quorum, life) is None
        assert isinstance(propose_much(world, quorum), DiskFull)
    world.power_loss("none")
    world.disk.empty()
    assert start(world).image.next_producer_id == 11


class ReadOnly(SimulatedDisk):
    """A file system that the kernel has made read-only, after an error of the disk: no name goes."""

    is_so = False

    def remove(self, path: str) -> None:
        if self.is_so:
            raise OSError(errno.EROFS, "read-only file system", path)
        super().remove(path)


def test_room_that_cannot_be_given_up_is_told_to_the_proposer_as_the_full_disk_that_it_is() -> None:
    world = World(disk := ReadOnly())
    quorum = start(world)
    assert propose(world, quorum, 1) is None
    disk.fill(0)
    disk.is_so = True
    told: list[HeadraceError | None] = []
    quorum.propose(lambda _: reserve(2), told.append, is_vital=True)
    world.background.drain()
    assert [type(error) for error in told] == [DiskFull]
    disk.is_so = False
    quorum.propose(lambda _: reserve(3), told.append, is_vital=True)
    world.background.drain()
    assert told[-1] is None


def test_room_that_a_power_loss_took_is_set_aside_again() -> None:
    world = World()
    assert propose(world, start(world), 1) is None
    world.power_loss("none")
    assert propose(world, start(world), 2) is None
    world.power_loss("all")
    world.disk.fill(0)
    assert propose(world, start(world), 3) is None


def test_room_is_set_aside_once_there_are_file_handles_for_it() -> None:
    world = World(disk := FewHandles())
    quorum = start(world)
    told: list[HeadraceError | None] = []
    quorum.propose(lambda _: reserve(1), told.append)
    while len(world.background.waiting) + len(world.background.results) and not told:
        world.background.work()
        disk.is_short = True
        world.background.tell()
    assert told == [None]
    disk.is_short = False
    assert not world.files.exists(f"{world.root}/metadata/reserve")
    assert propose(world, quorum, 2) is None
    assert len(disk.contents(f"{world.root}/metadata/reserve")) == RESERVE_BYTES


def test_a_damaged_state_file_is_named_and_not_guessed() -> None:
    world = World()
    start(world).close()
    path = f"{world.root}/metadata/state"
    world.disk.flip_bit(path, len(world.disk.contents(path)) - 1)
    world.restart()
    with pytest.raises(StorageFailed, match="state is damaged"):
        start(world)


@pytest.mark.parametrize("damage", ["empty", "magic"])
def test_a_state_file_that_is_no_state_file_is_damaged_and_not_of_another_version(damage: str) -> None:
    world = World()
    start(world).close()
    path = f"{world.root}/metadata/state"
    if damage == "empty":
        world.disk.tear(path, 0)
    else:
        world.disk.flip_bit(path, 2)
    world.restart()
    with pytest.raises(StorageFailed, match="state is damaged"):
        start(world)


def damaged(world: World) -> None:
    """In the first entry's record, below what is synced."""
    (name,) = (name for name in world.files.list(f"{world.root}/metadata/log") if name.endswith(".log"))
    world.disk.flip_bit(f"{world.root}/metadata/log/{name}", SEGMENT_HEADER_BYTES + 80)


def test_a_damaged_metadata_log_is_named_with_what_to_do() -> None:
    world = World()
    quorum = start(world)
    assert propose(world, quorum, 3) is None
    quorum.close()
    world.background.drain()
    damaged(world)
    world.restart()
    with pytest.raises(StorageFailed, match=r"metadata/log is damaged at entry 1, .* restore the data directory"):
        start(world)


def test_a_metadata_log_that_does_not_read_when_it_is_opened_anew_stays_closed_until_it_does() -> None:
    world = World()
    events: list[str] = []
    quorum = Quorum(world.store, world.files, world.clock, 0, lambda kind, _: events.append(kind))
    world.disk.fail_syncs(1)
    assert isinstance(propose(world, quorum, 3), StorageFailed)
    quorum.recover(world.background)
    world.background.work()
    world.disk.fail_reads(9, "/metadata/log")
    world.background.tell()
    assert not quorum.is_usable
    assert events[-1] == "metadata.not-recovered"
    world.disk.mend()
    world.background.drain()
    quorum.recover(world.background)
    world.background.drain()
    assert quorum.image.next_producer_id == 3
    assert propose(world, quorum, 4) is None


def test_a_state_file_of_another_format_is_refused() -> None:
    world = World()
    start(world).close()
    world.disk.flip_bit(f"{world.root}/metadata/state", 7)
    world.restart()
    with pytest.raises(FormatTooNew):
        start(world)
