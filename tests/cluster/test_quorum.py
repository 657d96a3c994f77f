"""The metadata log of a quorum of one, on a disk that loses what was not synced."""

from __future__ import annotations

import pytest

from headrace.cluster import quorum as quorums
from headrace.cluster.quorum import Quorum
from headrace.cluster.records import ClusterCreated, MetadataRecord, NodeRegistered, ProducerIdsReserved
from headrace.errors import FormatTooNew, HeadraceError, LimitReached, StorageFailed
from headrace.log.config import ignore_error
from headrace.testing.disk import PowerLoss, SimulatedDisk
from tests.log.kit import World


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


def test_a_damaged_state_file_is_named_and_not_guessed() -> None:
    world = World()
    start(world).close()
    path = f"{world.root}/metadata/state"
    world.disk.flip_bit(path, len(world.disk.contents(path)) - 1)
    world.restart()
    with pytest.raises(StorageFailed, match="state is damaged"):
        start(world)


def test_a_state_file_of_another_format_is_refused() -> None:
    world = World()
    start(world).close()
    world.disk.flip_bit(f"{world.root}/metadata/state", 7)
    world.restart()
    with pytest.raises(FormatTooNew):
        start(world)
