"""A compacted topic, as foreign clients read it: gaps between offsets and batches without records are no obstacle."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

KEYS, ROUNDS = 50, 60
LIMIT_S = 60.0
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "16384",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "3600000",
}
Read = list[tuple[int, bytes, bytes | None]]


def with_confluent(address: str, topic: str, end: int) -> Read:
    consumer = Consumer({"bootstrap.servers": address, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: Read = []
    deadline = time.monotonic() + LIMIT_S
    try:
        while (not found or found[-1][0] < end - 1) and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.5):
                assert message.error() is None
                found.append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()
    return found


def with_kafka_python(address: str, topic: str, end: int) -> Read:
    consumer = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([PythonPartition(topic, 0)])
    found: Read = []
    deadline = time.monotonic() + LIMIT_S
    try:
        while (not found or found[-1][0] < end - 1) and time.monotonic() < deadline:
            for messages in consumer.poll(500).values():
                found += [(message.offset, message.key, message.value) for message in messages]
    finally:
        consumer.close()
    return found


def with_aiokafka(address: str, topic: str, end: int) -> Read:
    async def read() -> Read:
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest")
        await consumer.start()
        found: Read = []
        deadline = time.monotonic() + LIMIT_S
        try:
            while (not found or found[-1][0] < end - 1) and time.monotonic() < deadline:
                for messages in (await consumer.getmany(timeout_ms=500)).values():
                    found += [(message.offset, message.key, message.value) for message in messages]
        finally:
            await consumer.stop()
        return found

    return asyncio.run(read())


def state(found: Read) -> dict[bytes, bytes]:
    known: dict[bytes, bytes] = {}
    for _, key, value in found:
        known.pop(key, None)
        if value is not None:
            known[key] = value
    return known


@pytest.mark.timeout(180)
def test_every_client_reads_the_same_state_from_a_compacted_topic(address: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(topic, 1, 1, config=CONFIG)]).values():
        made.result(LIMIT_S)
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 1})
    expected: dict[bytes, bytes] = {}
    for turn in range(ROUNDS):
        for number in range(KEYS):
            key, value = b"k%d" % number, b"%d-" % turn + b"x" * 40
            is_deleted = number % 7 == turn % 7
            producer.produce(topic, None if is_deleted else value, key, 0)
            expected.pop(key, None)
            if not is_deleted:
                expected[key] = value
        producer.flush(LIMIT_S)
    end = ROUNDS * KEYS
    found = with_confluent(address, topic, end)
    deadline = time.monotonic() + LIMIT_S
    while len(found) > end // 2 and time.monotonic() < deadline:
        time.sleep(1)
        found = with_confluent(address, topic, end)
    assert len(found) <= end // 2, "it was compacted"
    for read in (with_confluent, with_kafka_python, with_aiokafka):
        found = read(address, topic, end)
        offsets = [offset for offset, *_ in found]
        assert offsets == sorted(set(offsets)), read.__name__
        assert offsets[-1] == end - 1, read.__name__
        assert state(found) == expected, read.__name__
    consumer = Consumer({"bootstrap.servers": address, "group.id": topic, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 3)])  # an offset that is gone
        deadline = time.monotonic() + LIMIT_S
        message = None
        while message is None and time.monotonic() < deadline:
            message = consumer.poll(0.5)
        assert message is not None and message.error() is None
        assert message.offset() == next(offset for offset in offsets if offset >= 3)
        (place,) = consumer.offsets_for_times([TopicPartition(topic, 0, 0)], LIMIT_S)
        assert place.offset == offsets[0]
    finally:
        consumer.close()
