"""What each group request answers, in every version, at a real node."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.broker.groups.generation import State
from headrace.broker.groups.settings import GroupSettings
from headrace.wire.kafka import header
from headrace.wire.kafka.errors import Code
from tests.doors.asking import Asker, another, asking, create
from tests.doors_http.running import until
from tests.groups.asking import GROUP, beat, commit, join, leave, member, ms, position, sync


@pytest.fixture
async def asker(tmp_path: Path) -> AsyncIterator[Asker]:
    async with asking(tmp_path) as found:
        await create(found, "t", partitions=3)
        yield found


@pytest.mark.parametrize("version", range(10))
async def test_a_new_member_asks_twice_from_version_4_on(asker, version):
    joined = await join(asker, version)
    if version >= 4:
        assert (joined.error_code, joined.generation_id) == (Code.MEMBER_ID_REQUIRED, -1)
        joined = await join(asker, version, joined.member_id)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id == joined.members[0].member_id
    assert joined.member_id.startswith("asker-")
    if version >= 7:
        assert joined.protocol_type == "consumer"


@pytest.mark.parametrize("version", range(6))
async def test_who_leaves_a_group_that_there_is_not_is_told_so_one_by_one(asker, version):
    left = await leave(asker, "stranger", version)
    if version < 3:
        assert left.error_code == Code.UNKNOWN_MEMBER_ID
    else:
        assert left.error_code == Code.NONE
        assert [(one.member_id, one.error_code) for one in left.members] == [("stranger", Code.UNKNOWN_MEMBER_ID)]


@pytest.mark.parametrize("version", range(6))
async def test_a_member_syncs_beats_and_leaves_in_every_version(asker, version):
    joined = await join(asker, 3)
    synced = await sync(asker, joined.member_id, 1, b"mine", version)
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert await beat(asker, joined.member_id, 1, min(version, 4)) == 0
    assert await beat(asker, joined.member_id, 2, min(version, 4)) == Code.ILLEGAL_GENERATION
    left = await leave(asker, joined.member_id, version)
    assert left.error_code == 0
    if version >= 3:
        assert (left.members[0].member_id, left.members[0].error_code) == (joined.member_id, 0)
    again = await leave(asker, joined.member_id, version)
    code = again.members[0].error_code if version >= 3 else again.error_code
    assert code == Code.UNKNOWN_MEMBER_ID
    assert await beat(asker, joined.member_id, 1, min(version, 4)) == Code.UNKNOWN_MEMBER_ID


async def test_what_no_group_can_be_is_refused(asker):
    assert (await join(asker, 5, group_id="")).error_code == Code.INVALID_GROUP_ID
    assert (await join(asker, 5, session_timeout=ms(10))).error_code == Code.INVALID_SESSION_TIMEOUT
    assert (await join(asker, 5, session_timeout=ms(2_000_000))).error_code == Code.INVALID_SESSION_TIMEOUT
    assert (await join(asker, 5, protocols=[])).error_code == Code.INCONSISTENT_GROUP_PROTOCOL
    assert (await join(asker, 5, member_id="stranger")).error_code == Code.UNKNOWN_MEMBER_ID
    assert (await sync(asker, "stranger", 1)).error_code == Code.UNKNOWN_MEMBER_ID


async def test_a_join_waits_for_the_others_and_holds_up_nobody_else(asker):
    first, _ = await member(asker)
    async with another(asker) as second:
        waiting = asyncio.ensure_future(join(second, 3))
        await until(lambda: asker.node.broker.groups.hosted[GROUP].group.state is State.PREPARING)
        assert await beat(asker, first, 1) == Code.REBALANCE_IN_PROGRESS
        assert not waiting.done()
        joined = await join(asker, 3, first)
        assert joined.generation_id == 2 and len(joined.members) == 2
        assert (await waiting).members == ()


@pytest.mark.parametrize("version", range(2, 11))
async def test_a_position_is_kept_in_every_version(asker, version):
    topic = asker.node.broker.topic("t").id if version >= 10 else "t"
    assert await commit(asker, 7 + version, topic=topic, version=version) == 0
    found = await position(asker)
    assert (found.committed_offset, found.metadata) == (7 + version, "m")
    assert found.committed_leader_epoch == (3 if version >= 6 else -1)


async def test_what_cannot_be_committed_is_told_by_partition(asker):
    assert await commit(asker, 1, topic="nowhere") == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(asker, 1, partition=9) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(asker, 1, topic=uuid.UUID(int=9), version=10) == Code.UNKNOWN_TOPIC_ID
    assert await commit(asker, 1, metadata="x" * 5000) == Code.OFFSET_METADATA_TOO_LARGE
    assert await commit(asker, 1, generation_id_or_member_epoch=4, member_id="m") == Code.ILLEGAL_GENERATION
    assert (await position(asker)).committed_offset == -1


async def test_only_members_commit_where_there_are_members(asker):
    member_id, generation = await member(asker)
    assert await commit(asker, 1) == Code.UNKNOWN_MEMBER_ID
    mine = {"member_id": member_id, "generation_id_or_member_epoch": generation}
    assert await commit(asker, 2, **mine) == 0
    assert await commit(asker, 1, **mine | {"generation_id_or_member_epoch": 7}) == Code.ILLEGAL_GENERATION
    assert (await position(asker)).committed_offset == 2


@pytest.mark.parametrize("version", range(1, 11))
async def test_positions_are_found_in_every_version(asker, version):
    await commit(asker, 41)
    topic = {"topic_id": asker.node.broker.topic("t").id} if version >= 10 else {"name": "t"}
    asked = [topic | {"partition_indexes": [0, 1]}]
    if version < 8:
        fields = {"group_id": GROUP, "topics": asked} | ({"require_stable": True} if version >= 7 else {})
        answer = await asker.ask_by_schema(header.OFFSET_FETCH, version, fields)
        topics = answer.topics
    else:
        who = {"member_id": None, "member_epoch": -1} if version >= 9 else {}
        groups = [{"group_id": GROUP, "topics": asked} | who, {"group_id": "nobody", "topics": None} | who]
        answer = await asker.ask_by_schema(header.OFFSET_FETCH, version, {"groups": groups, "require_stable": True})
        assert [(one.group_id, one.error_code) for one in answer.groups] == [(GROUP, 0), ("nobody", 0)]
        assert answer.groups[1].topics == ()
        topics = answer.groups[0].topics
    assert [(p.partition_index, p.committed_offset) for p in topics[0].partitions] == [(0, 41), (1, -1)]


@pytest.mark.parametrize("version", range(2, 11))
async def test_no_topics_named_means_all_of_the_group(asker, version):
    await create(asker, "u")
    await commit(asker, 1)
    await commit(asker, 2, topic="u")
    if version < 8:
        fields = {"group_id": GROUP, "topics": None} | ({"require_stable": False} if version >= 7 else {})
        topics = (await asker.ask_by_schema(header.OFFSET_FETCH, version, fields)).topics
    else:
        who = {"member_id": None, "member_epoch": -1} if version >= 9 else {}
        fields = {"groups": [{"group_id": GROUP, "topics": None} | who], "require_stable": False}
        topics = (await asker.ask_by_schema(header.OFFSET_FETCH, version, fields)).groups[0].topics
    broker = asker.node.broker
    names = [broker.topic_by_id(one.topic_id).name if version >= 10 else one.name for one in topics]
    offsets = [one.partitions[0].committed_offset for one in topics]
    assert sorted(zip(names, offsets, strict=True)) == [("t", 1), ("u", 2)]


async def test_positions_go_with_their_topic(asker):
    await create(asker, "u")
    await commit(asker, 5, topic="u")
    await asker.node.broker.delete_topics(["u"])
    await create(asker, "u")
    assert (await position(asker, "u")).committed_offset == -1


async def test_the_session_of_a_dead_member_ends(tmp_path):
    settings = GroupSettings(min_session_ms=100)
    async with asking(tmp_path, groups=settings) as asker:
        await create(asker, "t")
        joined = await join(asker, 3, session_timeout=ms(300))
        await sync(asker, joined.member_id, 1)
        for _ in range(4):
            await asyncio.sleep(0.15)
            assert await beat(asker, joined.member_id, 1) == 0
        await asyncio.sleep(0.6)
        assert await beat(asker, joined.member_id, 1) == Code.UNKNOWN_MEMBER_ID


async def test_a_node_that_stops_does_not_wait_for_members_that_wait(tmp_path):
    async with asking(tmp_path) as asker:
        await create(asker, "t")
        await member(asker)
        async with another(asker) as second:
            waiting = asyncio.ensure_future(join(second, 3))
            await asyncio.sleep(0.05)
            begin = asyncio.get_running_loop().time()
            asker.node.broker.groups.stop()
            assert (await waiting).error_code == Code.NOT_COORDINATOR
            assert asyncio.get_running_loop().time() - begin < 1
