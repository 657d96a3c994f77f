"""Ids against kill -9: a publisher that repeats whatever it has no answer for, and a topic that looks at ids.

What must hold, in words: every record is there, once, however often it was sent and the broker killed.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.records import codec
from headrace.records.record import Record
from headrace.testing.served import ServedBroker
from tests.support import Wire, serving

LIMIT_S = 60.0
PATIENT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "metadata.recovery.strategy": "none"}
QUIET = {"log_level": 0}
PARTITIONS = 2
WINDOW = {"headrace.dedup.window.ms": "600000"}


class Publisher:
    """Sends numbered records, each with its id, and again what came to nothing."""

    def __init__(self, address: str, topic: str, settings: dict[str, object]) -> None:
        self.topic, self.sent = topic, 0
        self.unanswered: set[int] = set()
        settings = {"bootstrap.servers": address, "linger.ms": 1, "message.timeout.ms": 1000, **settings}
        self._producer = Producer(settings | PATIENT | QUIET)
        self._chance = random.Random(3)

    def send(self, count: int) -> None:
        for number in range(self.sent, self.sent + count):
            self.unanswered.add(number)
            self._put(number)
            if self._chance.random() < 0.2:  # an impatient one
                self._put(number)
        self.sent += count
        self._producer.poll(0)

    def repeat(self) -> None:
        """Until all are answered for."""
        until = time.monotonic() + LIMIT_S
        while self.unanswered:
            assert time.monotonic() < until, f"{len(self.unanswered)} were never acknowledged"
            for number in sorted(self.unanswered):
                self._put(number)
            self._producer.flush(5)

    def _put(self, number: int) -> None:
        headers = [("id", b"record-%d" % number)]
        partition = number % PARTITIONS
        self._producer.produce(self.topic, b"%d" % number, headers=headers, partition=partition, on_delivery=self._told)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.unanswered.discard(int(message.value()))


def stored(address: str, topic: str) -> dict[int, tuple[int, int]]:
    """Number to partition and offset, of all that is there; each once."""
    found: dict[int, tuple[int, int]] = {}
    with Wire(address) as wire:
        for partition in range(PARTITIONS):
            for record in read_all(wire, topic, partition):
                assert record.value is not None
                assert int(record.value) not in found, f"{record.value!r} is stored twice"
                found[int(record.value)] = (partition, record.offset)
    return found


def read_all(wire: Wire, topic: str, partition: int) -> list[Record]:
    """Over gaps, and batches of which nothing is left."""
    records: list[Record] = []
    offset = 0
    while True:
        fetched = wire.fetch(topic, offset, partition, max_wait_ms=0, max_bytes=1 << 20)
        assert fetched.error == 0
        data = b"".join(fetched.pieces or [])
        if not data:
            assert offset == fetched.high_watermark, "nothing came below the high watermark"
            return records
        records += [record for record in codec.decode(data) if record.offset >= offset]
        offset = codec.split(data)[-1][0].next_offset


def create(address: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": address} | QUIET)
    wishes = [NewTopic(name, PARTITIONS, 1, config=WINDOW) for name in topics]
    for created in admin.create_topics(wishes).values():
        created.result(LIMIT_S)


def kill_while_publishing(folder: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    with ServedBroker(folder) as broker:
        create(broker.address, "plain", "idempotent")
        publishers = [
            Publisher(broker.address, "plain", {"acks": "all", "message.send.max.retries": 2}),
            Publisher(broker.address, "idempotent", {"acks": "all", "enable.idempotence": True}),
        ]
        for _ in range(rounds):
            for pause in (chance.uniform(0.05, 0.3), None, chance.uniform(0.0, 0.1)):
                if pause is None:
                    broker.kill()
                    broker.start()
                    continue
                until = time.monotonic() + pause
                while time.monotonic() < until:
                    for publisher in publishers:
                        publisher.send(10)
                    time.sleep(0.002)
        for publisher in publishers:
            publisher.repeat()
        broker.kill()
        broker.start()
        for publisher in publishers:
            found = stored(broker.address, publisher.topic)
            assert sorted(found) == list(range(publisher.sent)), "a record is missing"
            assert publisher.sent > 100 * rounds, "there was hardly any load"


def test_five_kills_and_every_record_is_there_once(tmp_path: Path) -> None:
    kill_while_publishing(tmp_path, rounds=5, seed=5)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_hundred_kills_and_every_record_is_there_once(tmp_path: Path) -> None:
    kill_while_publishing(tmp_path, rounds=100, seed=100)


def test_a_consumer_reads_past_what_was_left_out(tmp_path: Path) -> None:
    """Of an idempotent producer's repeated batches empty ones stay, also at the end."""
    with serving(tmp_path) as broker:
        create(broker.address, "t")
        settings = {"bootstrap.servers": broker.address, "enable.idempotence": True, "linger.ms": 50} | QUIET
        for _ in range(3):
            producer = Producer(settings)
            for number in range(10):
                producer.produce("t", b"%d" % number, headers=[("id", b"%d" % number)], partition=0)
                if number == 5:
                    producer.flush(LIMIT_S)
            assert producer.flush(LIMIT_S) == 0
        consumer = Consumer(
            {"bootstrap.servers": broker.address, "group.id": "g", "enable.partition.eof": True} | QUIET
        )
        consumer.assign([TopicPartition("t", 0, 0)])
        values = []
        while True:
            message = consumer.poll(LIMIT_S)
            assert message is not None, "the end never came"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                break
            values.append(message.value())
        consumer.close()
        assert values == [b"%d" % number for number in range(10)]
        with Wire(broker.address) as wire:
            assert [record.value for record in read_all(wire, "t", 0)] == values


def test_a_repeated_batch_is_answered_with_its_first_offset(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        create(broker.address, "t")
        told: list[int] = []
        for _ in range(2):
            told.clear()
            producer = Producer({"bootstrap.servers": broker.address, "acks": "all", "linger.ms": 50} | QUIET)
            for number in range(5):
                producer.produce(
                    "t",
                    b"%d" % number,
                    headers=[("id", b"%d" % number)],
                    partition=0,
                    on_delivery=lambda error, message: told.append(-2 if error else message.offset()),
                )
            assert producer.flush(LIMIT_S) == 0
            assert told == list(range(5))
