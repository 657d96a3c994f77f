"""Positions go with their topic: one that is made under the same name begins without any, whatever happened between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.groups.burials import Burials
from headrace.broker.groups.group import Group
from headrace.broker.groups.hosted import Hosted
from headrace.broker.groups.hosting import TOPIC
from headrace.broker.groups.positions import Position, Positions
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.state_topic import Entry, StateTopic
from headrace.errors import CoordinatorLoading, DiskFull, HeadraceError, Unsettled
from headrace.log.config import Done
from tests.doors.asking import Asker, asking, create
from tests.doors_http.running import until
from tests.groups.asking import GROUP, commit, position

NONE = -1


async def loaded(asker: Asker) -> None:
    await until(lambda: not asker.node.broker.groups._unready)


async def stands_at(asker: Asker, topic: str = "u") -> int:
    return int((await position(asker, topic)).committed_offset)


async def test_a_topic_that_is_made_again_begins_without_positions_also_after_a_restart(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        for number in range(20):
            name = f"u{number}"
            await create(asker, name)
            assert await commit(asker, 5, topic=name) == 0
            await asker.node.broker.delete_topics([name])
            await create(asker, name)
            assert await stands_at(asker, name) == NONE
            assert await commit(asker, 2, topic=name) == 0
    async with asking(tmp_path) as asker:
        await loaded(asker)
        assert [await stands_at(asker, f"u{number}") for number in range(20)] == [2] * 20


async def test_a_position_that_is_being_kept_when_its_topic_goes_goes_with_it(tmp_path: Path) -> None:
    told: list[HeadraceError | None] = []
    async with asking(tmp_path) as asker:
        broker = asker.node.broker
        await create(asker, "u")
        await create(asker, "t")
        assert await commit(asker, 1, topic="t") == 0
        for turns in range(10):
            commits = [("u", 0, Position(5)), ("t", 0, Position(7))]
            broker.groups.commit(GROUP, "", None, -1, commits, told.append)
            for _ in range(turns):
                await asyncio.sleep(0)
            await broker.delete_topics(["u"])
            await create(asker, "u")
            await until(lambda: len(told) > turns)  # noqa: B023
            assert (await stands_at(asker), await stands_at(asker, "t")) == (NONE, 7)
        assert told == [None] * 10
        await broker.groups.buried()
    async with asking(tmp_path) as asker:
        await loaded(asker)
        assert (await stands_at(asker), await stands_at(asker, "t")) == (NONE, 7)


async def test_a_deletion_that_was_cut_short_is_finished_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(tmp_path) as asker:
        for name in ("u", "t"):
            await create(asker, name)
            assert await commit(asker, 5, topic=name) == 0
        monkeypatch.setattr(asker.node.broker.groups, "topic_deleted", lambda name: None)  # it dies before
        await asker.node.broker.delete_topics(["u"])
    for _ in range(2):
        async with asking(tmp_path) as asker:
            await loaded(asker)
            if asker.node.broker.topic("u") is None:
                await create(asker, "u")
            assert (await stands_at(asker), await stands_at(asker, "t")) == (NONE, 5)


async def test_a_topic_that_is_deleted_and_made_again_while_positions_are_read_back_begins_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(tmp_path) as asker:
        await create(asker, "u")
        assert await commit(asker, 5, topic="u") == 0
    monkeypatch.setattr("headrace.broker.groups.hosting.Hosting.start", lambda _: None)
    async with asking(tmp_path) as asker:
        groups = asker.node.broker.groups
        with pytest.raises(CoordinatorLoading):
            groups.find(GROUP)
        await asker.node.broker.delete_topics(["u"])
        await create(asker, "u")
        monkeypatch.undo()
        groups.start()
        await loaded(asker)
        assert await stands_at(asker) == NONE
        assert await commit(asker, 3, topic="u") == 0
        assert await stands_at(asker) == 3


class Held:
    """Reading back waits until it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._calls: list[Callable[[], None]] = []
        self._load, self._is_held = StateTopic.load_batches, True
        monkeypatch.setattr(StateTopic, "load_batches", self._hold())

    def _hold(self) -> Callable[..., None]:
        def load_batches(state: StateTopic, *args: Any) -> None:
            call = partial(self._load, state, *args)
            self._calls.append(call) if self._is_held and state.name == TOPIC else call()

        return load_batches

    def let_go(self) -> None:
        self._is_held = False
        for call in self._calls:
            call()


async def test_a_deletion_while_positions_are_read_back_is_answered_when_they_are_gone_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(tmp_path) as asker:
        for name in ("u", "t"):
            await create(asker, name)
            assert await commit(asker, 5, topic=name) == 0
    held = Held(monkeypatch)
    async with asking(tmp_path) as asker:
        broker = asker.node.broker
        deletions = [asyncio.create_task(broker.delete_topics(["u"])) for _ in range(2)]
        await until(lambda: broker.topic("u") is None)
        await create(asker, "u")
        await asyncio.sleep(0.1)
        assert not any(deletion.done() for deletion in deletions)
        deletions[1].cancel()  # who gives up takes nobody along
        held.let_go()
        assert await asyncio.wait_for(deletions[0], 10) == [None]
    async with asking(tmp_path) as asker:
        await loaded(asker)
        assert (await stands_at(asker), await stands_at(asker, "t")) == (NONE, 5)


async def test_a_node_that_stops_before_they_are_read_back_does_not_say_that_they_are_gone_and_they_do_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(tmp_path) as asker:
        for name in ("u", "t"):
            await create(asker, name)
            assert await commit(asker, 5, topic=name) == 0
    Held(monkeypatch)
    async with asking(tmp_path) as asker:
        broker = asker.node.broker
        deletion = asyncio.create_task(broker.delete_topics(["u"]))
        await until(lambda: broker.topic("u") is None)
    with pytest.raises(Unsettled):
        await asyncio.wait_for(deletion, 10)
    monkeypatch.undo()
    held = Held(monkeypatch)
    async with asking(tmp_path) as asker:
        assert asker.node.broker.topic("u") is None
        await create(asker, "u")  # before anybody knows that there was one
        held.let_go()
        await loaded(asker)
        assert (await stands_at(asker), await stands_at(asker, "t")) == (NONE, 5)
        await asker.node.broker.groups.buried()
    monkeypatch.undo()
    async with asking(tmp_path) as asker:
        await loaded(asker)
        assert (await stands_at(asker), await stands_at(asker, "t")) == (NONE, 5)


async def test_a_deletion_does_not_wait_for_what_cannot_be_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(tmp_path) as asker:
        await create(asker, "u")
        assert await commit(asker, 5, topic="u") == 0

    def fails(state: StateTopic, partition: int, apply: object, done: Done) -> None:
        state._broker.timers.after(0, lambda: done(DiskFull("not now")))

    monkeypatch.setattr(StateTopic, "load_batches", fails)
    monkeypatch.setattr("headrace.broker.groups.hosting.RETRY_S", 0.2)
    async with asking(tmp_path) as asker:
        assert await asyncio.wait_for(asker.node.broker.delete_topics(["u"]), 10) == [None]
        await create(asker, "u")
        monkeypatch.undo()
        await loaded(asker)
        await asker.node.broker.groups.buried()
        assert await stands_at(asker) == NONE


async def test_positions_that_wait_for_their_transaction_go_with_their_topic(tmp_path: Path) -> None:
    told: list[HeadraceError | None] = []
    async with asking(tmp_path) as asker:
        groups = asker.node.broker.groups
        for name in ("u", "t"):
            await create(asker, name)
        commits = [("u", 0, Position(5)), ("t", 0, Position(7))]
        groups.pend_offsets(GROUP, 70, 0, commits, told.append)
        await until(lambda: told == [None])
        groups.pend_offsets(GROUP, 71, 0, commits, told.append)  # on its way
        await asker.node.broker.delete_topics(["u"])
        await create(asker, "u")
        await until(lambda: told == [None, None])
        for producer in (70, 71):
            groups.end_transaction(producer, groups.partition_for(GROUP), True)
        assert (await stands_at(asker), await stands_at(asker, "t")) == (NONE, 7)


def test_what_waits_goes_with_its_place_in_memory_and_in_what_is_read_back() -> None:
    positions = Positions()
    positions.pend(7, [("u", 0, Position(5)), ("u", 1, Position(6))], 1)
    positions.put("u", 2, Position(1), 2)
    assert (positions.names(), sorted(positions.places("u"))) == ({"u"}, [("u", 0), ("u", 1), ("u", 2)])
    positions.remove("u", 0)
    positions.end_transaction(7, True)
    assert [place[:2] for place in positions] == [("u", 2), ("u", 1)]


async def test_a_position_that_could_not_be_removed_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(tmp_path) as asker:
        broker = asker.node.broker
        for name in ("u", "t"):
            await create(asker, name)
            assert await commit(asker, 5, topic=name) == 0

        def full(partition: int, records: list[Entry], done: Done, producer: object = None) -> None:
            broker.timers.after(0, lambda: done(DiskFull("no room")))

        monkeypatch.setattr(broker.groups.state, "append", full)
        assert await broker.delete_topics(["u", "t"]) == [None, None]
        monkeypatch.undo()
        for name in ("u", "t"):
            await create(asker, name)
            assert await stands_at(asker, name) == NONE
        assert await commit(asker, 9, topic="t") == 0  # nothing may take this one along
        broker.groups.maintain()
        await broker.groups.buried()
        assert (await stands_at(asker), await stands_at(asker, "t")) == (NONE, 9)
    async with asking(tmp_path) as asker:
        await loaded(asker)
        assert (await stands_at(asker), await stands_at(asker, "t")) == (NONE, 9)


async def test_who_gives_up_waiting_for_a_deletion_takes_nobody_along() -> None:
    kept: list[Done] = []
    burials = Burials(asyncio.get_running_loop().create_future, lambda hosted, entries, done: kept.append(done))
    hosted = Hosted(Group("g", GroupSettings()), 0)
    burials.begin([(hosted, [("u", number) for number in range(250)])])
    waiting = [asyncio.create_task(burials.over()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    assert len(kept) == 3 and not waiting[1].done()
    for done in kept:
        done(None)
    await asyncio.wait_for(asyncio.gather(*waiting[1:]), 5)
    assert waiting[0].cancelled()
    await burials.over()
