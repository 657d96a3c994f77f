"""Other people's clients, unmodified, with the broker of the fixture: through a crash, and over a moved clock."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

import headrace
from headrace.testing import Broker

LIMIT_S = 30.0


def test_confluent_kafka_produces_and_consumes(headrace_broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": headrace_broker.kafka, "enable.idempotence": True})
    for number in range(100):
        producer.produce("orders", str(number), key="k")
    assert producer.flush(LIMIT_S) == 0
    assert headrace_broker.values("orders") == [str(number).encode() for number in range(100)]
    headrace_broker.produce("orders", "from the test")
    got = consume(headrace_broker, 101)
    assert got[-1].value() == b"from the test"


def consume(broker: Broker, count: int) -> list[Message]:
    consumer = Consumer(
        {"bootstrap.servers": broker.kafka, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([TopicPartition("orders", 0, 0)])
    got: list[Message] = []
    deadline = time.monotonic() + LIMIT_S
    while len(got) < count and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            got.append(message)
    consumer.close()
    return got


@pytest.mark.parametrize("power_loss", [False, True])
def test_an_idempotent_producer_loses_nothing_over_a_crash(headrace_broker: Broker, power_loss: bool) -> None:
    """librdkafka sends again what was not acknowledged: once each, in order."""
    headrace_broker.create_topic("orders")
    producer = Producer(
        {
            "bootstrap.servers": headrace_broker.kafka,
            "enable.idempotence": True,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "retry.backoff.ms": 10,
            "log_level": 0,
        }
    )
    failed: list[object] = []
    for number in range(300):
        producer.produce("orders", str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0)
        if number in (100, 200):
            headrace_broker.crash(power_loss=power_loss)
            headrace_broker.restart()
    assert producer.flush(LIMIT_S) == 0
    assert not failed
    assert headrace_broker.values("orders") == [str(number).encode() for number in range(300)]


def test_kafka_python_produces_and_consumes_and_reconnects(headrace_broker: Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=headrace_broker.kafka, acks="all", retries=20, reconnect_backoff_ms=20)
    assert producer.send("orders", b"one", b"k").get(LIMIT_S).offset == 0
    headrace_broker.drop_connections()
    assert producer.send("orders", b"two").get(LIMIT_S).offset == 1
    headrace_broker.restart()
    assert producer.send("orders", b"three").get(LIMIT_S).offset == 2
    producer.close()
    where = PythonPartition("orders", 0)
    consumer = KafkaConsumer(bootstrap_servers=headrace_broker.kafka)
    consumer.assign([where])
    consumer.seek(where, 0)
    got: list[bytes] = []
    deadline = time.monotonic() + LIMIT_S
    while len(got) < 3 and time.monotonic() < deadline:
        got += [record.value for record in consumer.poll(200).get(where, [])]
    consumer.close()
    assert got == [b"one", b"two", b"three"]


async def test_aiokafka_goes_on_while_the_broker_is_commanded(headrace_broker: Broker) -> None:
    where = AioPartition("orders", 0)
    headrace_broker.create_topic("orders")
    async with (
        AIOKafkaProducer(bootstrap_servers=headrace_broker.kafka, acks="all", retry_backoff_ms=20) as producer,
        AIOKafkaConsumer(bootstrap_servers=headrace_broker.kafka, retry_backoff_ms=20) as consumer,
    ):
        consumer.assign([where])
        consumer.seek(where, 0)
        await producer.send_and_wait("orders", b"one")
        await headrace_broker.aio.crash()
        waiting = asyncio.create_task(producer.send_and_wait("orders", b"two"))
        await headrace_broker.aio.restart()
        async with asyncio.timeout(LIMIT_S):
            await waiting
            got = [(await consumer.getone()).value for _ in range(2)]
    assert got == [b"one", b"two"]


async def test_a_consumer_of_aiokafka_finds_old_records_gone(headrace_broker: Broker) -> None:
    headrace_broker.produce("orders", "old")
    headrace_broker.clock.advance("8 days")
    headrace_broker.produce("orders", "new")
    where = AioPartition("orders", 0)
    async with AIOKafkaConsumer(bootstrap_servers=headrace_broker.kafka, auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        await consumer.seek_to_beginning(where)
        async with asyncio.timeout(LIMIT_S):
            record = await consumer.getone()
    assert (record.offset, record.value) == (1, b"new")


def test_a_producer_that_idled_for_long_finds_its_way_back(headrace_broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": headrace_broker.kafka, "log_level": 0, "reconnect.backoff.ms": 10})
    producer.produce("orders", "one")
    assert producer.flush(LIMIT_S) == 0
    headrace_broker.clock.advance("1 h")
    assert headrace_broker.connections() == 0
    producer.produce("orders", "two")
    assert producer.flush(LIMIT_S) == 0
    assert headrace_broker.values("orders") == [b"one", b"two"]


@pytest.mark.headrace(storage="disk")
def test_a_full_disk_reaches_the_producer_as_an_error(headrace_broker: Broker) -> None:
    headrace_broker.create_topic("orders")
    headrace_broker.fill_disk()
    producer = Producer(
        {"bootstrap.servers": headrace_broker.kafka, "message.timeout.ms": 1500, "retry.backoff.ms": 50, "log_level": 0}
    )
    errors: list[object] = []
    producer.produce("orders", "one", on_delivery=lambda error, _: errors.append(error))
    producer.flush(LIMIT_S)
    assert errors[0] is not None
    headrace_broker.free_disk()
    producer.produce("orders", "two", on_delivery=lambda error, _: errors.append(error))
    producer.flush(LIMIT_S)
    assert errors[1] is None
    assert headrace_broker.values("orders") == [b"two"]


def test_our_own_client_loses_nothing_over_crashes(headrace_broker: Broker) -> None:
    headrace_broker.create_topic("orders", 2)
    with headrace.connect(headrace_broker.kafka) as client:
        with client.producer(acks="all") as producer:
            futures = []
            for number in range(200):
                futures.append(producer.put("orders", str(number), partition=number % 2))
                if number in (50, 150):
                    headrace_broker.crash(power_loss=True)
                    headrace_broker.restart()
            for future in futures:
                future.result(LIMIT_S)
        with client.consumer("orders", follow=False) as consumer:
            got = [(record.partition, record.value) for record in consumer]
    for index in (0, 1):
        expected = [str(number).encode() for number in range(200) if number % 2 == index]
        assert [value for partition, value in got if partition == index] == expected
