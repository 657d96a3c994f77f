"""Groups as administrators see them: listed, described, deleted; positions taken away; and after a restart too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headrace.wire.kafka import header
from headrace.wire.kafka.errors import Code
from tests.doors.asking import Asker, asking, create, record
from tests.doors_http.running import until
from tests.groups.asking import GROUP, beat, commit, leave, member, position

NOT_ASKED = -(1 << 31)


@pytest.fixture
async def asker(tmp_path: Path) -> AsyncIterator[Asker]:
    async with asking(tmp_path) as found:
        await create(found, "t", partitions=3)
        await create(found, "u")
        yield found


async def listed(asker: Asker, version: int = 5, **filters: Any) -> list[Any]:
    fields = {name: list(value) for name, value in filters.items()}
    if version >= 4:
        fields.setdefault("states_filter", [])
    if version >= 5:
        fields.setdefault("types_filter", [])
    answer = await asker.ask_by_schema(header.LIST_GROUPS, version, fields)
    assert answer.error_code == 0
    return list(answer.groups)


async def described(asker: Asker, version: int, group: str = GROUP, operations: bool = False) -> Any:
    fields: dict[str, Any] = {"groups": [group]}
    if version >= 3:
        fields["include_authorized_operations"] = operations
    return (await asker.ask_by_schema(header.DESCRIBE_GROUPS, version, fields)).groups[0]


async def deleted(asker: Asker, *groups: str, version: int = 2) -> list[int]:
    answer = await asker.ask_by_schema(header.DELETE_GROUPS, version, {"groups_names": list(groups)})
    return [one.error_code for one in answer.results]


async def positions_deleted(asker: Asker, topic: str, partition: int = 0, group: str = GROUP) -> tuple[int, int]:
    topics = [{"name": topic, "partitions": [{"partition_index": partition}]}]
    answer = await asker.ask_by_schema(header.OFFSET_DELETE, 0, {"group_id": group, "topics": topics})
    return answer.error_code, answer.topics[0].partitions[0].error_code if answer.topics else -1


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed_in_every_version(asker, version):
    assert await listed(asker, version) == []
    await member(asker)
    (one,) = await listed(asker, version)
    assert (one.group_id, one.protocol_type) == (GROUP, "consumer")
    if version >= 4:
        assert one.group_state == "Stable"
    if version >= 5:
        assert one.group_type == "classic"


async def test_lists_are_filtered_by_state_and_kind(asker):
    await member(asker)
    await commit(asker, 1, group_id="simple")
    names = {one.group_id: (one.group_state, one.protocol_type) for one in await listed(asker)}
    assert names == {GROUP: ("Stable", "consumer"), "simple": ("Empty", "")}
    assert [one.group_id for one in await listed(asker, states_filter=["stable"])] == [GROUP]
    assert [one.group_id for one in await listed(asker, states_filter=["Empty", "Dead"])] == ["simple"]
    assert await listed(asker, types_filter=["consumer"]) == []
    assert len(await listed(asker, types_filter=["Classic", "consumer"])) == 2


@pytest.mark.parametrize("version", range(7))
async def test_a_group_is_described_in_every_version(asker, version):
    member_id, _ = await member(asker, b"assigned")
    group = await described(asker, version, operations=version >= 3)
    assert (group.error_code, group.group_state, group.protocol_data) == (0, "Stable", "range")
    (one,) = group.members
    assert (one.member_id, one.client_id, one.client_host) == (member_id, "asker", "/127.0.0.1")
    assert one.member_assignment == b"assigned" and one.member_metadata
    if version >= 3:
        assert group.authorized_operations != NOT_ASKED
    nobody = await described(asker, version, "nobody")
    assert (nobody.group_state, nobody.members) == ("Dead", ())
    assert nobody.error_code == (Code.GROUP_ID_NOT_FOUND if version >= 6 else 0)


@pytest.mark.parametrize("version", range(3))
async def test_only_groups_without_members_are_deleted(asker, version):
    member_id, _ = await member(asker)
    await commit(asker, 1, group_id="simple")
    codes = await deleted(asker, GROUP, "simple", "nobody", version=version)
    assert codes == [Code.NON_EMPTY_GROUP, 0, Code.GROUP_ID_NOT_FOUND]
    await leave(asker, member_id)
    assert await deleted(asker, GROUP, version=version) == [0]
    assert await listed(asker) == []
    assert (await position(asker, group="simple")).committed_offset == -1


async def test_positions_are_taken_away_but_for_topics_that_members_read(asker):
    member_id, generation = await member(asker)
    mine = {"member_id": member_id, "generation_id_or_member_epoch": generation}
    await commit(asker, 1, **mine)
    await commit(asker, 2, topic="u", **mine)
    assert await positions_deleted(asker, "t") == (0, Code.GROUP_SUBSCRIBED_TO_TOPIC)
    assert await positions_deleted(asker, "nowhere") == (0, Code.UNKNOWN_TOPIC_OR_PARTITION)
    assert await positions_deleted(asker, "u") == (0, 0)
    assert (await position(asker, "u")).committed_offset == -1
    assert (await position(asker)).committed_offset == 1
    assert await positions_deleted(asker, "t", group="nobody") == (Code.GROUP_ID_NOT_FOUND, -1)


async def test_after_a_restart_members_go_on_and_what_was_deleted_stays_deleted(tmp_path):
    async with asking(tmp_path) as asker:
        await create(asker, "t")
        member_id, generation = await member(asker, b"mine")
        await commit(asker, 9, member_id=member_id, generation_id_or_member_epoch=generation)
        await commit(asker, 5, group_id="gone")
        assert await deleted(asker, "gone") == [0]
    async with asking(tmp_path) as asker:
        await until(lambda: not asker.node.broker.groups._unready)
        assert await beat(asker, member_id, generation) == 0
        assert (await position(asker)).committed_offset == 9
        (one,) = await listed(asker)
        assert (one.group_id, one.group_state) == (GROUP, "Stable")
        assert (await described(asker, 6)).members[0].member_assignment == b"mine"


@pytest.mark.parametrize("version", range(7))
async def test_this_node_coordinates_groups_and_transactions(asker, version):
    for kind in (0, 1) if version else (0,):
        keys = {"coordinator_keys": ["a", "b"]} if version >= 4 else {"key": "a"}
        fields = keys | ({"key_type": kind} if version >= 1 else {})
        answer = await asker.ask_by_schema(header.FIND_COORDINATOR, version, fields)
        ones = answer.coordinators if version >= 4 else [answer]
        at = asker.node.addresses["kafka"]
        assert {(one.node_id, one.host, one.port, one.error_code) for one in ones} == {(0, at.host, at.port, 0)}
        if version >= 4:
            assert [one.key for one in ones] == ["a", "b"]


async def test_nobody_else_writes_the_topic_of_groups_and_whoever_asks_first_it_is_made_right(asker):
    await asker.node.broker.auto_create(["__consumer_offsets"])
    topic = asker.node.broker.topic("__consumer_offsets")
    assert len(topic.partitions) == 50 and topic.is_compacted
    assert (await asker.produce("__consumer_offsets", 0, [record(1)])).error == Code.INVALID_TOPIC_EXCEPTION


async def test_without_its_topic_the_groups_are_gone_and_new_ones_can_be(asker):
    member_id, generation = await member(asker)
    await commit(asker, 1, group_id="simple")
    await asker.node.broker.delete_topics(["__consumer_offsets"])
    assert await listed(asker) == []
    assert await beat(asker, member_id, generation) == Code.UNKNOWN_MEMBER_ID
    assert await commit(asker, 2, group_id="simple") == 0
    assert (await position(asker, group="simple")).committed_offset == 2
