"""The positions of a group as part of a transaction, over a socket, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.wire.kafka import header
from headrace.wire.kafka.errors import Code
from tests.doors.asking import Asker
from tests.transactions.client import Producer

GROUP = "g"


async def add_offsets(producer: Producer, version: int, group: str = GROUP) -> int:
    fields = {
        "transactional_id": producer.id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "group_id": group,
    }
    answer = await producer.asker.ask_by_schema(header.ADD_OFFSETS_TO_TXN, version, fields)
    return int(answer.error_code)


async def commit_offset(producer: Producer, offset: int, version: int, **more: Any) -> int:
    position: dict[str, Any] = {
        "partition_index": more.get("partition", 0),
        "committed_offset": offset,
        "committed_metadata": more.get("metadata", "m"),
    }
    if version >= 2:
        position["committed_leader_epoch"] = -1
    fields: dict[str, Any] = {
        "transactional_id": producer.id,
        "group_id": GROUP,
        "producer_id": producer.producer_id,
        "producer_epoch": more.get("epoch", producer.epoch),
        "topics": [{"name": more.get("topic", "t"), "partitions": [position]}],
    }
    if version >= 3:
        fields |= {"generation_id": more.get("generation", -1), "member_id": "", "group_instance_id": None}
    answer = await producer.asker.ask_by_schema(header.TXN_OFFSET_COMMIT, version, fields)
    return int(answer.topics[0].partitions[0].error_code)


async def position(asker: Asker, *, stable: bool = False) -> tuple[int, int]:
    """(offset, error)"""
    topics = [{"name": "t", "partition_indexes": [0]}]
    fields = {"group_id": GROUP, "topics": topics, "require_stable": stable}
    answer = await asker.ask_by_schema(9, 7, fields)
    one = answer.topics[0].partitions[0]
    return one.committed_offset, int(one.error_code)


async def _settled(producer: Producer) -> None:
    """The last transaction is wholly ended: only then is the next epoch given."""
    assert await producer.init() == 0


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commit", [True, False])
async def test_positions_count_when_their_transaction_is_committed(asker: Asker, version: int, commit: bool) -> None:
    producer = Producer(asker)
    await producer.init()
    if version < 5:
        assert await add_offsets(producer, min(version, 4)) == 0
    assert await commit_offset(producer, 7, version) == 0
    assert await position(asker) == (-1, 0), "not before its end"
    assert (await position(asker, stable=True))[1] == Code.UNSTABLE_OFFSET_COMMIT
    assert await producer.end(commit) == 0
    await _settled(producer)
    assert await position(asker, stable=True) == (7 if commit else -1, 0)


async def test_positions_that_were_not_added_to_the_transaction_are_refused(asker: Asker) -> None:
    producer = Producer(asker)
    await producer.init()
    assert await commit_offset(producer, 7, 3) == Code.INVALID_TXN_STATE
    assert await commit_offset(producer, 7, 4) == Code.TRANSACTION_ABORTABLE
    assert await add_offsets(producer, 3) == 0
    assert await commit_offset(producer, 7, 3) == 0


async def test_who_is_fenced_commits_no_position(asker: Asker) -> None:
    old, new = Producer(asker), Producer(asker)
    await old.init()
    await new.init()
    assert await add_offsets(old, 1) == Code.INVALID_PRODUCER_EPOCH
    assert await add_offsets(old, 2) == Code.PRODUCER_FENCED
    assert await commit_offset(old, 7, 5) == Code.PRODUCER_FENCED
    assert await commit_offset(old, 7, 3) == Code.PRODUCER_FENCED


async def test_what_there_is_not_is_told_for_each_partition(asker: Asker) -> None:
    producer = Producer(asker)
    await producer.init()
    assert await commit_offset(producer, 7, 5, topic="nowhere") == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit_offset(producer, 7, 5, partition=99) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit_offset(producer, 7, 5, metadata="m" * 5000) == Code.OFFSET_METADATA_TOO_LARGE
    assert await add_offsets(producer, 4, group="") == Code.INVALID_GROUP_ID
    assert await commit_offset(producer, 7, 5, generation=3) == Code.ILLEGAL_GENERATION


async def test_records_and_positions_are_one(asker: Asker) -> None:
    producer = Producer(asker)
    await producer.init()
    for number, commit in enumerate([True, False, True]):
        assert (await producer.produce("t")).error == 0
        assert await commit_offset(producer, number + 1, 5) == 0
        assert await producer.end(commit) == 0
    await _settled(producer)
    assert await position(asker) == (3, 0)
