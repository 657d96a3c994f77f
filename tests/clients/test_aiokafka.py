"""aiokafka, as it comes: it speaks the old, non-flexible versions throughout."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.clients.records import CODECS, COUNT, WHEN_MS, Sent, records

LIMIT_S = 30.0


async def send(address: str, topic: str, sent: list[Sent], **settings: Any) -> list[Any]:
    async with AIOKafkaProducer(bootstrap_servers=address, linger_ms=5, **settings) as producer:
        waiting = [
            await producer.send(
                topic,
                record.value,
                record.key,
                partition=0,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
            )
            for record in sent
        ]
        return list(await asyncio.gather(*waiting))


async def receive(address: str, topic: str, count: int, offset: int = 0) -> list[ConsumerRecord[Any, Any]]:
    where = TopicPartition(topic, 0)
    got: list[ConsumerRecord[Any, Any]] = []
    async with AIOKafkaConsumer(bootstrap_servers=address, check_crcs=True) as consumer:
        consumer.assign([where])
        consumer.seek(where, offset)
        async with asyncio.timeout(LIMIT_S):
            while len(got) < count:
                got += (await consumer.getmany(where, timeout_ms=500)).get(where, [])
    return got


def as_sent(record: ConsumerRecord[Any, Any]) -> Sent:
    return Sent(record.key, record.value, list(record.headers), record.timestamp)


@pytest.mark.parametrize("compression", CODECS)
async def test_what_is_sent_comes_back(address: str, topic: str, compression: str) -> None:
    sent = records(1, time.time_ns() // 1_000_000)
    await send(address, topic, sent, compression_type=None if compression == "none" else compression)
    got = await receive(address, topic, COUNT)
    assert [as_sent(record) for record in got] == sent
    assert [record.offset for record in got] == list(range(COUNT))


@pytest.mark.parametrize("acks", [1, "all"])
async def test_acknowledgements_name_the_offsets(address: str, topic: str, acks: int | str) -> None:
    answers = await send(address, topic, records(2, WHEN_MS), acks=acks)
    assert [answer.offset for answer in answers] == list(range(COUNT))


async def test_an_idempotent_producer_has_everything_once_and_in_order(address: str, topic: str) -> None:
    sent = records(3, time.time_ns() // 1_000_000)
    await send(address, topic, sent, enable_idempotence=True)
    assert [as_sent(record) for record in await receive(address, topic, COUNT)] == sent


async def test_big_messages_come_back(address: str, topic: str) -> None:
    sent = [Sent(b"k", bytes([number]) * 900_000, [], WHEN_MS) for number in range(10)]
    await send(address, topic, sent, max_request_size=1_000_000)
    assert [as_sent(record) for record in await receive(address, topic, 10)] == sent


async def test_offsets_are_found_by_time_and_at_both_ends(address: str, topic: str) -> None:
    sent = records(4, time.time_ns() // 1_000_000)
    await send(address, topic, sent)
    where = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=address) as consumer:
        assert await consumer.beginning_offsets([where]) == {where: 0}
        assert await consumer.end_offsets([where]) == {where: COUNT}
        for number in (0, 1, 500, COUNT - 1):
            found = await consumer.offsets_for_times({where: sent[number].timestamp_ms})
            assert found[where].offset == number
            assert found[where].timestamp == sent[number].timestamp_ms
        assert await consumer.offsets_for_times({where: sent[-1].timestamp_ms + 60_000}) == {where: None}


async def test_topics_are_made_deleted_and_made_again(address: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        for turn in range(2):
            made = await admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"headrace.storage": "disk"})])
            assert [error for _, error, *_ in made.topic_errors] == [0]
            await send(address, topic, records(5, WHEN_MS)[: 10 + turn])
            assert len(await receive(address, topic, 10 + turn)) == 10 + turn
            await admin.delete_topics([topic])
        assert topic not in await admin.list_topics()
    finally:
        await admin.close()
