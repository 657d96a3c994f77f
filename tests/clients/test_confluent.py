"""confluent-kafka (librdkafka), as it comes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.records import codec
from tests.clients.records import CODECS, COUNT, WHEN_MS, Sent, records
from tests.support import Wire

LIMIT_S = 30.0
BIG_BYTES = 900_000


class Deliveries:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.errors: list[KafkaError] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.messages.append(message)
        else:
            self.errors.append(error)


def send(address: str, topic: str, sent: list[Sent], **settings: Any) -> list[Message]:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, **settings})
    delivered = Deliveries()
    for record in sent:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition=0,
            headers=record.headers,
            timestamp=record.timestamp_ms,
            on_delivery=delivered,
        )
        producer.poll(0)
    assert producer.flush(LIMIT_S) == 0
    assert not delivered.errors, delivered.errors
    return delivered.messages


def consumer(address: str, **settings: Any) -> Consumer:
    plain = {"bootstrap.servers": address, "group.id": "nobody", "enable.auto.commit": False, "check.crcs": True}
    return Consumer(plain | settings)


def receive(address: str, topic: str, count: int, offset: int = 0, **settings: Any) -> list[Message]:
    reader = consumer(address, **settings)
    reader.assign([TopicPartition(topic, 0, offset)])
    got: list[Message] = []
    deadline = time.monotonic() + LIMIT_S
    while len(got) < count and time.monotonic() < deadline:
        got += reader.consume(count - len(got), timeout=0.5)
    reader.close()
    assert not [message.error() for message in got if message.error()]
    assert len(got) == count
    return got


def as_sent(message: Message) -> Sent:
    return Sent(message.key(), message.value(), message.headers() or [], message.timestamp()[1])


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("compression", CODECS)
def test_what_is_sent_comes_back(address: str, topic: str, compression: str, acks: int | str) -> None:
    sent = records(1, time.time_ns() // 1_000_000)
    send(address, topic, sent, acks=acks, **{"compression.type": compression})
    got = receive(address, topic, COUNT)
    assert [as_sent(message) for message in got] == sent
    assert [message.offset() for message in got] == list(range(COUNT))
    assert codec_on_disk(address, topic) == compression, "the client did not use the codec it was told to"


def codec_on_disk(address: str, topic: str) -> str:
    """Which codec the largest batch has: small ones may be sent plain."""
    with Wire(address) as wire:
        pieces = wire.fetch(topic, 0, max_bytes=4 << 20).pieces or []
    largest = max((head for head, _ in codec.split(b"".join(pieces))), key=lambda head: head.record_count)
    return CODECS[largest.compression]


def test_an_idempotent_producer_has_everything_once_and_in_order(address: str, topic: str) -> None:
    sent = records(2, time.time_ns() // 1_000_000)
    delivered = send(address, topic, sent, **{"enable.idempotence": True})
    assert [message.offset() for message in delivered] == list(range(COUNT))
    assert [as_sent(message) for message in receive(address, topic, COUNT)] == sent


def test_a_record_of_nothing_comes_back_as_nothing(address: str, topic: str) -> None:
    sent = [Sent(None, None, [], WHEN_MS), Sent(b"", b"", [("", b"")], WHEN_MS)]
    send(address, topic, sent)
    assert [as_sent(message) for message in receive(address, topic, 2)] == sent


def test_big_messages_come_back(address: str, topic: str) -> None:
    sent = [Sent(None, bytes([number]) * BIG_BYTES, [], WHEN_MS + number) for number in range(20)]
    send(address, topic, sent)
    assert [as_sent(message) for message in receive(address, topic, 20)] == sent
    tight = {"fetch.message.max.bytes": 1000, "fetch.max.bytes": 1_000_000}
    assert len(receive(address, topic, 20, **tight)) == 20, "a batch larger than asked for comes all the same"


def test_a_message_that_is_too_large_is_refused_and_the_next_is_taken(address: str, topic: str) -> None:
    delivered = Deliveries()
    producer = Producer({"bootstrap.servers": address, "message.max.bytes": 4_000_000})
    for size in (10, 2_000_000, 20):
        producer.produce(topic, b"x" * size, partition=0, on_delivery=delivered)
        producer.flush(LIMIT_S)
    assert [error.code() for error in delivered.errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert [len(message.value()) for message in receive(address, topic, 2)] == [10, 20]


def test_offsets_are_found_by_time(address: str, topic: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    sent = records(3, now_ms)
    send(address, topic, sent, **{"batch.num.messages": 50})
    reader = consumer(address)

    def found(timestamp_ms: int) -> int:
        (answer,) = reader.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], timeout=LIMIT_S)
        return int(answer.offset)

    assert found(0) == 0
    for number in (0, 1, 49, 50, 333, COUNT - 1):
        assert found(sent[number].timestamp_ms) == number
    assert found(now_ms + 60_000) == -1  # the end
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=LIMIT_S) == (0, COUNT)
    reader.close()


def test_a_reader_at_the_end_waits_and_gets_what_comes(address: str, topic: str) -> None:
    send(address, topic, records(4, WHEN_MS)[:10])
    reader = consumer(address, **{"fetch.wait.max.ms": 5000})
    reader.assign([TopicPartition(topic, 0, 10)])
    assert reader.poll(0.5) is None
    send(address, topic, [Sent(b"k", b"later", [], 1_700_000_000_001)])
    begin = time.monotonic()
    message = reader.poll(LIMIT_S)
    assert message is not None and message.value() == b"later"
    assert time.monotonic() - begin < 2.5, "a long poll was not woken"
    reader.close()


def test_an_offset_that_is_not_there_is_told(address: str, topic: str) -> None:
    send(address, topic, records(5, WHEN_MS)[:10])
    assert len(receive(address, topic, 10, offset=500, **{"auto.offset.reset": "earliest"})) == 10
    reader = consumer(address, **{"auto.offset.reset": "error"})
    reader.assign([TopicPartition(topic, 0, 500)])
    message = reader.poll(LIMIT_S)
    assert message is not None and message.error().code() == KafkaError._AUTO_OFFSET_RESET
    reader.close()


@pytest.mark.parametrize("storage", ["disk", "memory"])
def test_a_topic_can_stamp_its_records_itself(address: str, topic: str, storage: str) -> None:
    create(address, topic, {"message.timestamp.type": "LogAppendTime", "headrace.storage": storage})
    before_ms = time.time_ns() // 1_000_000
    delivered = send(address, topic, [Sent(None, b"x", [], 5)] * 10)
    after_ms = time.time_ns() // 1_000_000
    assert all(before_ms <= message.timestamp()[1] <= after_ms for message in delivered)
    for message in receive(address, topic, 10, delivered[0].offset()):
        kind, timestamp_ms = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert before_ms <= timestamp_ms <= after_ms


@pytest.mark.parametrize("compression", CODECS)
def test_memory_topics_are_written_and_read_like_others(address: str, topic: str, compression: str) -> None:
    create(address, topic, {"headrace.storage": "memory"})
    sent = records(6, time.time_ns() // 1_000_000)
    delivered = send(address, topic, sent, acks="all", **{"compression.type": compression})
    first = delivered[0].offset()
    got = receive(address, topic, COUNT, first)
    assert [as_sent(message) for message in got] == sent
    assert [message.offset() for message in got] == list(range(first, first + COUNT))
    assert got[0].timestamp()[0] == TIMESTAMP_CREATE_TIME


def test_a_topic_is_deleted_and_made_again_and_has_nothing_of_the_old(address: str, topic: str) -> None:
    sent = records(7, WHEN_MS)
    admin = AdminClient({"bootstrap.servers": address})
    for turn in range(3):
        create(address, topic)
        send(address, topic, sent[: 10 + turn])
        assert len(receive(address, topic, 10 + turn)) == 10 + turn
        admin.delete_topics([topic])[topic].result(LIMIT_S)
    assert topic not in admin.list_topics(timeout=LIMIT_S).topics


def test_topics_that_cannot_be_are_refused_with_words(address: str, topic: str) -> None:
    create(address, topic)
    for name, settings in ((topic, {}), ("no/slash", {}), (topic + "2", {"retention.ms": "soon"})):
        with pytest.raises(KafkaException):
            create(address, name, settings)
    admin = AdminClient({"bootstrap.servers": address})
    names = admin.list_topics(timeout=LIMIT_S).topics
    assert topic in names and topic + "2" not in names


def test_records_spread_over_partitions_come_back_from_each(address: str, topic: str) -> None:
    create(address, topic, partitions=12)
    producer = Producer({"bootstrap.servers": address})
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number, b"key-%d" % (number % 50))
    assert producer.flush(LIMIT_S) == 0
    reader = consumer(address)
    reader.assign([TopicPartition(topic, index, 0) for index in range(12)])
    got: list[Message] = []
    deadline = time.monotonic() + LIMIT_S
    while len(got) < COUNT and time.monotonic() < deadline:
        got += reader.consume(COUNT, timeout=0.5)
    reader.close()
    assert sorted(int(message.value()) for message in got) == list(range(COUNT))
    for index in range(12):
        values = [int(message.value()) for message in got if message.partition() == index]
        assert values == sorted(values)


def create(address: str, topic: str, settings: dict[str, str] | None = None, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=settings or {})
    admin.create_topics([new])[topic].result(LIMIT_S)


def test_a_reader_of_assigned_partitions_sees_no_error_and_closes_at_once(address: str, topic: str) -> None:
    """With librdkafka's defaults it has a group, and would commit to it."""
    send(address, topic, records(1, int(time.time() * 1000))[:3])
    reader = Consumer({"bootstrap.servers": address, "group.id": "somebody"})
    reader.assign([TopicPartition(topic, 0, 0)])
    seen = [message for message in (reader.poll(0.2) for _ in range(10)) if message is not None]
    assert [message.error() for message in seen] == [None] * len(seen)
    assert seen
    begin = time.monotonic()
    reader.close()
    assert time.monotonic() - begin < 5
