"""kafka-python, as it comes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests.clients.records import CODECS, COUNT, WHEN_MS, Sent, records

LIMIT_S = 30.0


def send(address: str, topic: str, sent: list[Sent], **settings: Any) -> list[Any]:
    producer = KafkaProducer(bootstrap_servers=address, linger_ms=5, **settings)
    waiting = [
        producer.send(
            topic,
            record.value,
            record.key,
            headers=record.headers,
            partition=0,
            timestamp_ms=record.timestamp_ms,
        )
        for record in sent
    ]
    producer.flush(LIMIT_S)
    answers = [one.get(LIMIT_S) for one in waiting]
    producer.close()
    return answers


def receive(address: str, topic: str, count: int, offset: int = 0) -> list[Any]:
    where = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=address, check_crcs=True)
    consumer.assign([where])
    consumer.seek(where, offset)
    got: list[Any] = []
    deadline = time.monotonic() + LIMIT_S
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} records came"
        got += consumer.poll(500).get(where, [])
    consumer.close()
    return got


def as_sent(record: Any) -> Sent:
    return Sent(record.key, record.value, list(record.headers), record.timestamp)


@pytest.mark.parametrize("compression", CODECS)
def test_what_is_sent_comes_back(address: str, topic: str, compression: str) -> None:
    sent = records(1, time.time_ns() // 1_000_000)
    send(address, topic, sent, compression_type=None if compression == "none" else compression)
    got = receive(address, topic, COUNT)
    assert [as_sent(record) for record in got] == sent
    assert [record.offset for record in got] == list(range(COUNT))


@pytest.mark.parametrize("acks", [1, "all"])
def test_acknowledgements_name_the_offsets(address: str, topic: str, acks: int | str) -> None:
    answers = send(address, topic, records(2, WHEN_MS), acks=acks)
    assert [answer.offset for answer in answers] == list(range(COUNT))


def test_an_idempotent_producer_has_everything_once_and_in_order(address: str, topic: str) -> None:
    sent = records(3, time.time_ns() // 1_000_000)
    send(address, topic, sent, enable_idempotence=True)
    assert [as_sent(record) for record in receive(address, topic, COUNT)] == sent


def test_big_messages_come_back(address: str, topic: str) -> None:
    sent = [Sent(b"k", bytes([number]) * 900_000, [], WHEN_MS) for number in range(10)]
    send(address, topic, sent)
    assert [as_sent(record) for record in receive(address, topic, 10)] == sent


def test_offsets_are_found_by_time_and_at_both_ends(address: str, topic: str) -> None:
    sent = records(4, time.time_ns() // 1_000_000)
    send(address, topic, sent)
    where = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=address)
    assert consumer.beginning_offsets([where]) == {where: 0}
    assert consumer.end_offsets([where]) == {where: COUNT}
    for number in (0, 1, 500, COUNT - 1):
        found = consumer.offsets_for_times({where: sent[number].timestamp_ms})
        assert found[where].offset == number
        assert found[where].timestamp == sent[number].timestamp_ms
    assert consumer.offsets_for_times({where: sent[-1].timestamp_ms + 60_000}) == {where: None}
    consumer.close()


def test_topics_are_made_deleted_and_made_again(address: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=address)
    for turn in range(2):
        admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"message.timestamp.type": "LogAppendTime"})])
        before_ms = time.time_ns() // 1_000_000
        send(address, topic, records(5, WHEN_MS)[: 10 + turn])
        got = receive(address, topic, 10 + turn)
        assert len(got) == 10 + turn
        assert all(record.timestamp >= before_ms and record.timestamp_type == 1 for record in got)
        admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    admin.close()
