"""Members over the wire, by Kafka's own schemas: join, sync, commit, in any version."""

from __future__ import annotations

import datetime
from typing import Any

from headrace.wire.kafka import header
from tests.doors.asking import Asker

GROUP = "a-group"


def ms(value: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=value)


def only(version: int, since: int, **fields: Any) -> dict[str, Any]:
    """Fields that the version has."""
    return fields if version >= since else {}


async def join(asker: Asker, version: int = 5, member_id: str = "", **more: Any) -> Any:
    fields: dict[str, Any] = {
        "group_id": GROUP,
        "session_timeout": ms(10_000),
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription("t")}],
        **only(version, 1, rebalance_timeout=ms(20_000)),
        **only(version, 5, group_instance_id=None),
        **only(version, 8, reason=None),
    }
    return await asker.ask_by_schema(header.JOIN_GROUP, version, fields | more)


async def sync(asker: Asker, member_id: str, generation: int, assignment: bytes = b"", version: int = 3) -> Any:
    fields = {
        "group_id": GROUP,
        "generation_id": generation,
        "member_id": member_id,
        "assignments": [{"member_id": member_id, "assignment": assignment}],
        **only(version, 3, group_instance_id=None),
        **only(version, 5, protocol_type="consumer", protocol_name="range"),
    }
    return await asker.ask_by_schema(header.SYNC_GROUP, version, fields)


async def beat(asker: Asker, member_id: str, generation: int, version: int = 3) -> int:
    fields = {"group_id": GROUP, "generation_id": generation, "member_id": member_id}
    more = only(version, 3, group_instance_id=None)
    return int((await asker.ask_by_schema(header.HEARTBEAT, version, fields | more)).error_code)


async def leave(asker: Asker, member_id: str, version: int = 1) -> Any:
    one = {"member_id": member_id, **only(version, 3, group_instance_id=None), **only(version, 5, reason=None)}
    fields = {"group_id": GROUP} | ({"members": [one]} if version >= 3 else {"member_id": member_id})
    return await asker.ask_by_schema(header.LEAVE_GROUP, version, fields)


async def member(asker: Asker, assignment: bytes = b"mine") -> tuple[str, int]:
    """One that has the group to itself: its id and generation."""
    joined = await join(asker, 3)
    assert joined.error_code == 0
    synced = await sync(asker, joined.member_id, joined.generation_id, assignment)
    assert (synced.error_code, synced.assignment) == (0, assignment)
    return joined.member_id, joined.generation_id


async def commit(
    asker: Asker, offset: int, *, topic: Any = "t", partition: int = 0, version: int = 7, **more: Any
) -> int:
    """By default nobody's, as of a consumer that assigns itself. The code of the one partition."""
    one: dict[str, Any] = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_metadata": more.pop("metadata", "m"),
        **only(version, 6, committed_leader_epoch=3),
    }
    named = {"topic_id": topic} if version >= 10 else {"name": topic}
    fields = {
        "group_id": GROUP,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{**named, "partitions": [one]}],
        **only(version, 7, group_instance_id=None),
        **({"retention_time": ms(-1)} if version <= 4 else {}),
    }
    answer = await asker.ask_by_schema(header.OFFSET_COMMIT, version, fields | more)
    return int(answer.topics[0].partitions[0].error_code)


async def position(asker: Asker, topic: str = "t", partition: int = 0, group: str = GROUP, **more: Any) -> Any:
    """Its answer for the one partition, by version 7."""
    asked = [{"name": topic, "partition_indexes": [partition]}]
    fields = {"group_id": group, "topics": asked, "require_stable": False} | more
    answer = await asker.ask_by_schema(header.OFFSET_FETCH, 7, fields)
    assert answer.error_code == 0
    return answer.topics[0].partitions[0]


def subscription(*topics: str) -> bytes:
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"
