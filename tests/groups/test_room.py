"""What groups hold is counted and bounded: of a member, of a group, of a node; and what goes is counted off again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.broker import state_topic
from headrace.broker.broker import NewTopic
from headrace.broker.groups import records
from headrace.broker.groups.events import Heartbeat, Join, Joined, Leave, Leaver, Save, Saved, Sync, Synced, Tell, Tick
from headrace.broker.groups.group import Group
from headrace.broker.groups.positions import Position, Positions, Tally
from headrace.broker.groups.settings import MAX_GROUP_BYTES, MAX_MEMBER_BYTES, MAX_PENDING, GroupSettings
from headrace.broker.groups.sizes import member_bytes
from headrace.errors import (
    CommitTooLarge,
    CoordinatorUnavailable,
    GroupDataTooLarge,
    GroupFull,
    HeadraceError,
    LimitReached,
)
from headrace.wire.kafka import header
from headrace.wire.kafka.errors import Code
from tests.doors.asking import asking
from tests.doors_http.running import until
from tests.groups.asking import GROUP, commit, join, leave, member, sync

MIB = 1 << 20


def joining(name: str, size: int = 10, **more: Any) -> Join:
    event = Join(name, "", name, "consumer", (("range", bytes(size)),), 10_000, 60_000, asks_twice=False)
    return event._replace(**more)


def told(effects: list[Any], who: str) -> Any:
    (answer,) = [effect.answer for effect in effects if isinstance(effect, Tell) and effect.who == who]
    return answer


def error_of(effects: list[Any], who: str) -> type[HeadraceError] | None:
    found: list[Any] = [one.answer for one in effects if isinstance(one, Tell) and one.who == who]
    found = [answer.error for answer in found]
    return type(found[0]) if found and found[0] is not None else None


def counted(group: Group) -> int:
    """By a walk over all that there is."""
    members = [
        member_bytes(one.id, one.instance_id, one.client_id, one.client_host, one.protocols) + len(one.assignment)
        for one in group.roster
    ]
    empty = Group(group.id, GroupSettings())
    empty.protocol_type = group.protocol_type
    return empty.held_bytes + group.pending.held_bytes + sum(members)


def test_a_member_that_says_too_much_is_refused_and_nothing_is_kept_of_it() -> None:
    group = Group("g", GroupSettings())
    for event in (
        joining("a", MAX_MEMBER_BYTES),
        joining("b", protocols=tuple((f"p{number}", b"") for number in range(60_000))),
        joining("c", client_id="x" * MAX_MEMBER_BYTES),
    ):
        assert error_of(group.step(0, event), str(event.who)) is GroupDataTooLarge
    assert (len(group.roster), group.held_bytes) == (0, Group("g", GroupSettings()).held_bytes)


def test_a_group_takes_members_while_it_can_be_kept_and_counts_off_those_that_go() -> None:
    group, empty, name = Group("g", GroupSettings()), Group("g", GroupSettings()).held_bytes, "a"
    while error_of(group.step(0, joining(name, MIB)), name) is None:
        name = chr(ord(name) + 1)
    assert (name, error_of(group.step(0, joining(name, MIB)), name)) == ("h", GroupFull)
    assert group.held_bytes == counted(group) <= MAX_GROUP_BYTES
    assert error_of(group.step(0, joining("small")), "small") is None
    group.step(1, Leave("x", [Leaver("a")]))
    assert error_of(group.step(1, joining("i", MIB)), "i") is None
    assert group.held_bytes == counted(group)
    group.step(400, Tick())
    group.step(500, Tick())
    assert (len(group.roster), group.pending.held_bytes) == (0, 0)
    assert group.held_bytes - empty == 4 * len("consumer")
    assert not group.roster._supported


def test_who_is_a_member_may_always_say_the_same_again_and_less_but_not_more_than_there_is_room_for() -> None:
    group = Group("g", GroupSettings())
    group.step(0, joining("a", 3 * MIB))
    group.step(0, joining("b", 3 * MIB))
    for size in (3 * MIB, MIB, 3 * MIB):
        event = joining("b", size, member_id="b", room=2 * MIB + 100)
        group.step(0, event)
        assert len(group.roster.members["b"].protocols[0][1]) == size
        assert group.held_bytes == counted(group)
    event = joining("b", 3 * MIB + 100, member_id="b", room=99)
    effects: list[Any] = group.step(0, event)
    assert isinstance(effects[0].answer.error, GroupFull)
    assert "b" not in group.roster
    assert group.held_bytes == counted(group)


def synced(group: Group, size: int, **more: Any) -> list[Any]:
    return group.step(1, Sync("sync", "a", group.generation, {"a": bytes(size), "stranger": bytes(9 * MIB)}, **more))


def test_an_assignment_that_could_never_be_kept_is_refused() -> None:
    group = Group("g", GroupSettings())
    group.step(0, joining("a", 3 * MIB))
    assert error_of(synced(group, 6 * MIB), "sync") is GroupDataTooLarge
    assert error_of(synced(group, MIB, room=4 * MIB), "sync") is CoordinatorUnavailable
    (save,) = synced(group, 4 * MIB)
    assert isinstance(save, Save)
    value = records.group_value(save.snapshot, 0)
    assert len(value) + len(records.group_key("g")) <= state_topic.MAX_APPEND_BYTES
    assert told(group.step(2, Saved(save.ticket)), "sync").error is None
    assert group.held_bytes == counted(group) > 7 * MIB
    group.step(2, joining("b", 10))
    group.step(3, Leave("x", [Leaver("a")]))
    assert group.held_bytes == counted(group) < MIB


def test_a_group_within_its_limit_fits_into_one_batch_whatever_its_names_are() -> None:
    group, longest = Group("g" * 32_767, GroupSettings()), "\u00ff" * 16_383
    while True:
        name = f"{len(group.roster)}" + longest[5:]
        event = joining(name, 100, client_id=longest, client_host=longest, instance_id=name)
        if error_of(group.step(0, event), name) is not None:
            break
    saved = group.snapshot()
    assert len(records.group_value(saved, 0)) + 40_000 <= state_topic.MAX_APPEND_BYTES
    group = Group("g", GroupSettings())
    group.step(0, joining("a", MAX_MEMBER_BYTES - 2_000))
    group.step(0, joining("b", 3 * MIB + 800_000))
    assert len(group.roster) == 2
    assert len(records.group_value(group.snapshot(), 0)) <= state_topic.MAX_APPEND_BYTES


def test_ids_that_were_given_out_count_until_their_time_is_over() -> None:
    group, given = Group("g", GroupSettings()), 0
    while True:
        name = f"{given}" + "x" * 30_000
        if error_of(group.step(0, joining(name, asks_twice=True)), name) is GroupFull:
            break
        given += 1
    assert 50 < given < MAX_PENDING and group.held_bytes <= MAX_GROUP_BYTES
    group.step(11, Tick())
    assert (len(group.pending), group.pending.held_bytes) == (0, 0)


def test_the_time_at_which_a_group_is_woken_is_never_late() -> None:
    group = Group("g", GroupSettings())
    group.step(0, joining("a", session_ms=1_800_000))
    assert group.wake_at <= 300  # a new member that was never answered would be out then
    group.step(1, Sync("a", "a", 1, {"a": b""}))
    group.step(1, Saved(1))
    for now in range(2, 2_000, 100):
        group.step(now, Heartbeat("a", "a", 1))
        assert group.wake_at <= now + 1_800
        if group.wake_at <= now:
            group.step(now, Tick())
    assert len(group.roster) == 1
    group.step(2_000, joining("a", member_id="a", session_ms=6_000))  # a shorter one from now on
    assert group.wake_at <= 2_006


def test_thousands_who_join_are_not_counted_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that walk over all members are few, however many join."""
    walks = 0
    group = Group("g", GroupSettings(initial_rebalance_delay_ms=60_000))
    members = type("Counted", (dict,), {})

    def values(self: dict[str, Any]) -> Any:
        nonlocal walks
        walks += 1
        return dict.values(self)

    members.values = values  # type: ignore[attr-defined]
    group.roster.members = members()
    for number in range(1_000):
        group.step(0, joining(f"m{number}"))
        assert group.wake_at == 10
    assert walks < 10
    assert group.roster.joining == 1_000


async def test_groups_of_a_node_share_a_bound_and_what_goes_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.groups.hosting.MAX_MEMBERS_BYTES", 300_000)
    async with asking(tmp_path) as asker:
        groups = asker.node.broker.groups
        large = [{"name": "range", "metadata": bytes(120_000)}]
        ids = []
        for name in ("a", "b", "c"):
            joined = await join(asker, 3, group_id=name, protocols=large)
            ids.append((joined.error_code, joined.member_id))
        assert [code for code, _ in ids] == [0, 0, Code.GROUP_MAX_SIZE_REACHED]
        assert sorted(groups.hosted) == ["a", "b"]
        assert groups.members_bytes == sum(one.group.held_bytes for one in groups.hosted.values()) < 300_000
        again = await join(asker, 3, ids[0][1], group_id="a", protocols=large)
        assert again.error_code == 0
        fields = {"group_id": "a", "member_id": ids[0][1]}
        assert (await asker.ask_by_schema(header.LEAVE_GROUP, 1, fields)).error_code == 0
        await until(lambda: groups.members_bytes < 150_000)
        assert (await join(asker, 3, group_id="c", protocols=large)).error_code == 0
        assert (await join(asker, 3, group_id="d" * 32_000, protocols=large)).error_code != 0
    async with asking(tmp_path) as asker:
        groups = asker.node.broker.groups
        await until(lambda: not groups._unready)
        assert groups.members_bytes == sum(one.group.held_bytes for one in groups.hosted.values())


async def test_refusals_have_kafkas_codes(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        large = [{"name": "range", "metadata": bytes(MAX_MEMBER_BYTES)}]
        for version in (3, 5, 9):
            assert (await join(asker, version, protocols=large)).error_code == Code.INVALID_REQUEST
        assert not asker.node.broker.groups.hosted
        joined = await join(asker, 3)
        synced = await sync(asker, joined.member_id, joined.generation_id, bytes(MAX_GROUP_BYTES))
        assert synced.error_code == Code.INVALID_REQUEST
        synced = await sync(asker, joined.member_id, joined.generation_id, b"mine")
        assert (synced.error_code, synced.assignment) == (0, b"mine")


async def test_groups_that_only_a_join_made_make_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.groups.hosting.MAX_BARE_GROUPS", 10)
    async with asking(tmp_path) as asker:
        groups = asker.node.broker.groups
        await asker.node.broker.create_topics([NewTopic("t", 5)])
        assert await commit(asker, 5, group_id="kept") == 0
        first, _ = await member(asker)
        for number in range(50):
            joined = await join(asker, 5, group_id=f"asked-{number}")
            assert joined.error_code == Code.MEMBER_ID_REQUIRED
        assert sorted(groups.hosted) == sorted(["kept", GROUP, *(f"asked-{number}" for number in range(40, 50))])
        late = await join(asker, 5, joined.member_id, group_id="asked-49")
        assert late.error_code == 0
        gone = await join(asker, 5, "asker-1", group_id="asked-1")
        assert gone.error_code == Code.UNKNOWN_MEMBER_ID
        assert (await leave(asker, first)).error_code == 0  # now its group is one too, and the youngest
        for number in range(100, 120):
            joined = await join(asker, 3, group_id=f"left-{number}")
            fields = {"group_id": f"left-{number}", "member_id": joined.member_id}
            assert (await asker.ask_by_schema(header.LEAVE_GROUP, 1, fields)).error_code == 0
        await until(lambda: len(groups.hosted) <= 12)
        assert "kept" in groups.hosted and "asked-49" in groups.hosted and GROUP not in groups.hosted
        # What is being saved counts too, until it is.
        await until(lambda: groups.members_bytes == sum(one.group.held_bytes for one in groups.hosted.values()))


def test_positions_are_counted_wherever_they_are() -> None:
    tally, positions = Tally(), Positions()
    positions.put("t", 0, Position(1, metadata="four"), 1)
    positions.count_in(tally)
    positions.put("t", 0, Position(2), 2)
    positions.put("t", 1, Position(2, metadata="xy"), 3)
    assert (tally.count, tally.text_bytes) == (2, 8)
    for producer in (7, 8):
        positions.pend(producer, [("t", 1, Position(3, metadata="abc")), ("u", 0, Position(1))], 4)
        positions.pend(producer, [("t", 1, Position(4))], 5)
    assert (tally.count, tally.text_bytes) == (6, 8)
    positions.end_transaction(7, True)
    assert (tally.count, tally.text_bytes) == (5, 0)
    positions.end_transaction(8, False)
    assert (tally.count, tally.text_bytes) == (3, 0)
    for topic, partition, _ in list(positions):
        positions.remove(topic, partition)
    positions.remove("t", 9)
    assert (tally.count, tally.text_bytes, bool(positions)) == (0, 0, False)


async def test_positions_of_a_node_are_bounded_and_those_that_are_there_move_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.groups.coordinator.MAX_POSITIONS", 3)
    async with asking(tmp_path) as asker:
        groups = asker.node.broker.groups
        await asker.node.broker.create_topics([NewTopic("t", 5)])
        codes = [await commit(asker, 1, partition=number, group_id=f"g{number}") for number in range(5)]
        assert codes == [0, 0, 0, Code.POLICY_VIOLATION, Code.POLICY_VIOLATION]
        assert await commit(asker, 2, partition=0, group_id="g0") == 0
        answers: list[HeadraceError | None] = []
        groups.pend_offsets("g0", 70, 0, [("t", 0, Position(5))], answers.append)
        assert isinstance(answers[0], LimitReached)
        asked: list[HeadraceError | None] = []
        groups.forget_positions(groups.hosted["g2"], [("t", 2)], asked.append)
        await until(lambda: asked == [None])
        many = [("t", number, Position(1)) for number in range(1, 3)]
        for _ in range(2):  # what is on its way counts too
            groups.commit("g1", "", None, -1, many, asked.append)
        await until(lambda: len(asked) == 3)
        assert sorted(map(bool, asked)) == [False, False, True]
    async with asking(tmp_path) as asker:
        await until(lambda: not asker.node.broker.groups._unready)
        assert asker.node.broker.groups.tally.count == 3


async def test_texts_beside_positions_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.broker.groups.coordinator.MAX_TEXT_BYTES", 10_000)
    async with asking(tmp_path) as asker:
        await asker.node.broker.create_topics([NewTopic("t", 5)])
        codes = [await commit(asker, 1, partition=number, metadata="x" * 2_000) for number in range(3)]
        assert codes == [0, 0, Code.POLICY_VIOLATION]
        assert await commit(asker, 1, partition=3, metadata="") == 0
        assert await commit(asker, 1, partition=0, metadata="") == 0
        assert await commit(asker, 1, partition=2, metadata="x" * 2_000) == 0


async def test_more_positions_at_once_than_can_be_kept_are_refused_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_topic, "MAX_APPEND_BYTES", 200)
    async with asking(tmp_path) as asker:
        await asker.node.broker.create_topics([NewTopic("t", 5)])
        assert await commit(asker, 1, metadata="x" * 300) == Code.INVALID_COMMIT_OFFSET_SIZE
        answers: list[HeadraceError | None] = []
        commits = [("t", 0, Position(5, metadata="x" * 300))]
        asker.node.broker.groups.pend_offsets(GROUP, 70, 0, commits, answers.append)
        await until(lambda: bool(answers))
        assert isinstance(answers[0], CommitTooLarge)


async def test_a_client_with_the_longest_name_that_there_is_gets_an_id(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        answers: list[Any] = []
        groups, name = asker.node.broker.groups, "x" * 32_767
        event = joining("", client_id=name, who=answers.append, new_id=groups.new_member_id(name))
        groups.join(GROUP, event)
        assert answers[0].error is None
        groups.sync(GROUP, Sync(answers.append, answers[0].member_id, 1))
        await until(lambda: len(answers) == 2)
        assert answers[1].error is None


async def test_the_same_group_many_times_over_does_not_make_an_answer_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.doors.kafka.api.describe_groups.MAX_BYTES", 10_000)
    async with asking(tmp_path) as asker:
        await member(asker, bytes(3_000))
        fields = {"groups": [GROUP] * 5 + ["unknown"], "include_authorized_operations": False}
        found = (await asker.ask_by_schema(header.DESCRIBE_GROUPS, 4, fields)).groups
        assert [int(one.error_code) for one in found] == [0, 0, *[Code.POLICY_VIOLATION] * 3, 0]
        assert [len(one.members) for one in found] == [1, 1, 0, 0, 0, 0]


def test_a_static_member_that_returns_again_and_again_waits_while_too_much_is_being_saved() -> None:
    group = Group("g", GroupSettings())
    group.step(0, joining("a", MIB, instance_id="i"))
    save: Any
    (save,) = group.step(1, Sync("a", "a", 1, {"a": bytes(MIB)}))
    group.step(1, Saved(save.ticket))
    assert error_of(group.step(2, joining("b", MIB, instance_id="i", room=MIB)), "b") is CoordinatorUnavailable
    (save,) = group.step(2, joining("c", MIB, instance_id="i", room=4 * MIB))
    assert isinstance(told(group.step(2, Saved(save.ticket)), "c"), Joined)
    assert isinstance(told(group.step(3, Sync("c", "c", 1)), "c"), Synced)
