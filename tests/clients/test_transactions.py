"""Transactions with the clients that people have: what is committed is read once, what is aborted never, and the
positions of a group go with the records.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPlace

from tests.clients.test_java import jars, perform, run  # noqa: F401  # a fixture

LIMIT_S = 30.0
TRANSACTIONS_TOOL = "org.apache.kafka.tools.TransactionsCommand"


def read(address: str, topic: str, level: str = "read_committed") -> list[str]:
    """By librdkafka, up to the end."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "r", "isolation.level": level, "enable.partition.eof": True}
    )
    consumer.assign([Place(topic, 0, 0)])
    values: list[str] = []
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is not None:
            break
        if message is not None:
            values.append(message.value().decode())
    consumer.close()
    return values


def transactional(address: str, name: str, **more: Any) -> Producer:
    producer = Producer({"bootstrap.servers": address, "transactional.id": name, "log_level": 0} | more)
    producer.init_transactions(LIMIT_S)
    return producer


def test_librdkafka_commits_and_aborts(address: str, topic: str) -> None:
    producer = transactional(address, topic)
    for number in range(4):
        producer.begin_transaction()
        producer.produce(topic, str(number))
        producer.flush(LIMIT_S)
        producer.commit_transaction(LIMIT_S) if number % 2 else producer.abort_transaction(LIMIT_S)
    assert read(address, topic) == ["1", "3"]
    assert read(address, topic, "read_uncommitted") == ["0", "1", "2", "3"]


def test_librdkafka_is_fenced_by_its_successor(address: str, topic: str) -> None:
    old = transactional(address, topic)
    old.begin_transaction()
    old.produce(topic, "old")
    old.flush(LIMIT_S)
    new = transactional(address, topic)
    with pytest.raises(KafkaException) as refused:
        old.commit_transaction(LIMIT_S)
    assert refused.value.args[0].fatal()
    new.begin_transaction()
    new.produce(topic, "new")
    new.commit_transaction(LIMIT_S)
    assert read(address, topic) == ["new"]


def test_librdkafka_copies_with_its_positions(address: str, topic: str) -> None:
    producer = transactional(address, topic)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(topic, str(number))
    producer.commit_transaction(LIMIT_S)
    settings = {"bootstrap.servers": address, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"enable.auto.commit": False, "isolation.level": "read_committed", "log_level": 0})
    consumer.subscribe([topic])
    for commit in (False, True):
        got: list[bytes] = []
        deadline = time.monotonic() + LIMIT_S
        while len(got) < 10 and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                got.append(message.value())
        assert len(got) == 10
        producer.begin_transaction()
        for value in got:
            producer.produce(f"{topic}-copy", value)
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), LIMIT_S)
        if commit:
            producer.commit_transaction(LIMIT_S)
        else:
            producer.flush(LIMIT_S)
            producer.abort_transaction(LIMIT_S)
            assert consumer.committed(consumer.assignment(), LIMIT_S)[0].offset < 0
            consumer.seek(Place(topic, 0, 0))
    assert consumer.committed(consumer.assignment(), LIMIT_S)[0].offset == 10
    consumer.close()
    assert read(address, f"{topic}-copy") == [str(number) for number in range(10)]


async def test_aiokafka_commits_and_aborts(address: str, topic: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=address, transactional_id=topic)
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"kept")
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 5}, f"{topic}-group")
        with pytest.raises(RuntimeError, match="on purpose"):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"lost")
                raise RuntimeError("on purpose")
        async with producer.transaction():
            await producer.send_and_wait(topic, b"kept too")
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=address,
        group_id=f"{topic}-group",
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    try:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        assert await consumer.committed(place) == 5
        consumer.seek(place, 0)
        values = []
        async with asyncio.timeout(LIMIT_S):
            while len(values) < 2:
                values.append((await consumer.getone()).value)
        assert values == [b"kept", b"kept too"]
    finally:
        await consumer.stop()


def test_kafka_python_commits_and_aborts(address: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=address, transactional_id=topic)
    producer.init_transactions()
    for value, commit in ((b"kept", True), (b"lost", False), (b"kept too", True)):
        producer.begin_transaction()
        producer.send(topic, value).get(LIMIT_S)
        producer.commit_transaction() if commit else producer.abort_transaction()
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=address, isolation_level="read_committed", consumer_timeout_ms=2000, group_id=None
    )
    place = PythonPlace(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    assert [message.value for message in consumer] == [b"kept", b"kept too"]
    consumer.close()


@pytest.mark.timeout(600)
def test_kafkas_own_performance_producer_and_its_tool_for_transactions(jars: Path, address: str, topic: str) -> None:  # noqa: F811
    """Java speaks transactions of version 2: Produce adds the partition, and each end raises the epoch."""
    perform(jars, address, topic, 2000, 100, f"transactional.id={topic}", "transaction.timeout.ms=60000")
    values = read(address, topic)
    assert len(values) == 2000
    where = ("--bootstrap-server", address)
    described = run(jars, TRANSACTIONS_TOOL, *where, "describe", "--transactional-id", topic).decode()
    assert "CompleteCommit" in described or "Empty" in described
    assert topic in run(jars, TRANSACTIONS_TOOL, *where, "list").decode()


@pytest.mark.timeout(600)
def test_kafkas_own_tool_ends_what_hangs(jars: Path, address: str, topic: str) -> None:  # noqa: F811
    producer = transactional(address, topic)
    producer.begin_transaction()
    producer.produce(topic, "hangs")
    producer.flush(LIMIT_S)
    plain = Producer({"bootstrap.servers": address})
    plain.produce(topic, "after it")
    plain.flush(LIMIT_S)
    assert read(address, topic) == []
    where = ("--bootstrap-server", address)
    partition = ("--topic", topic, "--partition", "0")
    shown = run(jars, TRANSACTIONS_TOOL, *where, "describe-producers", *partition).decode()
    assert "CurrentTransactionStartOffset" in shown
    run(jars, TRANSACTIONS_TOOL, *where, "abort", *partition, "--start-offset", "0")
    assert read(address, topic) == ["after it"]
