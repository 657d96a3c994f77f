"""DeleteRecords: over a socket in every version, and over kill -9 of a real process."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from headrace.testing.served import ServedBroker
from headrace.wire.kafka import header, list_offsets
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.list_offsets import AskedOffset, ListOffsetsRequest
from tests.doors.asking import Asker, another, create, record

WAIT_S = 30


async def delete(asker: Asker, *asked: tuple[str, int, int], version: int = 2, timeout_ms: int = 5000) -> list[Any]:
    """(start, code) of each (topic, partition, offset)."""
    fields = {
        "topics": [
            {"name": name, "partitions": [{"partition_index": index, "offset": offset}]}
            for name, index, offset in asked
        ],
        "timeout": datetime.timedelta(milliseconds=timeout_ms),
    }
    answer = await asker.ask_by_schema(header.DELETE_RECORDS, version, fields)
    assert [one.name for one in answer.topics] == [one[0] for one in asked]
    return [(one.partitions[0].low_watermark, one.partitions[0].error_code) for one in answer.topics]


async def start_of(asker: Asker, name: str) -> int:
    request = ListOffsetsRequest([(name, [AskedOffset(0, -1, list_offsets.EARLIEST)])])
    answer = await asker.ask(list_offsets, header.LIST_OFFSETS, 7, request)
    return int(answer.topics[0][1][0].offset)


@pytest.mark.parametrize("version", range(3))
async def test_records_before_an_offset_are_gone_for_everybody(asker: Asker, version: int) -> None:
    await create(asker, "t")
    await asker.produce("t", 0, [record(n) for n in range(10)])
    assert await delete(asker, ("t", 0, 4), version=version) == [(4, Code.NONE)]
    assert await start_of(asker, "t") == 4
    assert await delete(asker, ("t", 0, 2), version=version) == [(4, Code.NONE)]
    assert await delete(asker, ("t", 0, -1), version=version) == [(10, Code.NONE)]
    assert (await asker.produce("t", 0, [record(1)])).base_offset == 10


async def test_every_partition_has_its_own_answer(asker: Asker) -> None:
    await create(asker, "t", partitions=2)
    await create(asker, "c", configs={"cleanup.policy": "compact"})
    await create(asker, "m", configs={"headrace.storage": "memory"})
    await create(asker, "__own")
    await asker.produce("t", 1, [record(1)])
    answers = await delete(
        asker,
        ("t", 1, 1),
        ("t", 0, 0),
        ("t", 1, 2),
        ("t", 1, -2),
        ("t", 1, 2**63 - 1),
        ("t", 2, 0),
        ("t", -1, 0),
        ("none", 0, 0),
        ("c", 0, 0),
        ("__own", 0, 0),
    )
    assert answers == [
        (1, Code.NONE),
        (0, Code.NONE),
        (-1, Code.OFFSET_OUT_OF_RANGE),
        (-1, Code.OFFSET_OUT_OF_RANGE),
        (-1, Code.OFFSET_OUT_OF_RANGE),
        (-1, Code.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, Code.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, Code.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, Code.POLICY_VIOLATION),
        (-1, Code.INVALID_TOPIC_EXCEPTION),
    ]
    ((start, code),) = await delete(asker, ("m", 0, -1))
    assert start > 0 and code == Code.NONE


async def test_hundreds_of_partitions_are_deleted_from_with_one_request(asker: Asker) -> None:
    await create(asker, "t", partitions=300)
    asked = [("t", index, 0) for index in range(300)]
    assert await delete(asker, *asked) == [(0, Code.NONE)] * 300


async def test_a_client_whose_time_is_over_is_told_so_and_a_fault_is_not_its_own(asker: Asker) -> None:
    await create(asker, "t")
    await asker.produce("t", 0, [record(n) for n in range(3)])
    ((_, code),) = await delete(asker, ("t", 0, 2), timeout_ms=0)
    assert code in (Code.REQUEST_TIMED_OUT, Code.NONE)
    assert await delete(asker, ("t", 0, 3)) == [(3, Code.NONE)]


async def test_a_topic_that_goes_meanwhile_does_not_hold_up_who_deletes_from_it(asker: Asker) -> None:
    await create(asker, "t", partitions=50)
    async with another(asker) as other:
        asked = [("t", index, -1) for index in range(50)]
        deleting = asyncio.ensure_future(delete(asker, *asked))
        await asyncio.sleep(0)
        await other.node.broker.delete_topics(["t"])
        answers = await asyncio.wait_for(deleting, WAIT_S)
    assert len(answers) == 50


def test_deleted_records_stay_deleted_after_kill_9(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic("t", 1, config={"segment.bytes": "20000"})])["t"].result(WAIT_S)
        producer = Producer({"bootstrap.servers": broker.address, "batch.size": 5000})
        for number in range(200):
            producer.produce("t", b"%05d" % number * 100, partition=0)
        assert producer.flush(WAIT_S) == 0
        for offset in (7, 101, 150):
            ((_, deleted),) = admin.delete_records([TopicPartition("t", 0, offset)]).items()
            assert deleted.result(WAIT_S).low_watermark == offset
            broker.kill()
            broker.start()
            admin = AdminClient({"bootstrap.servers": broker.address})
            earliest = admin.list_offsets({TopicPartition("t", 0): OffsetSpec.earliest()})
            assert [one.result(WAIT_S).offset for one in earliest.values()] == [offset]
        segments = [path.name for path in (tmp_path / "data" / "topics").rglob("*.log")]
        assert segments and min(segments) > f"{0:020d}.log"
