"""kill -9 under load, again and again, with a foreign client on the other side.

What must hold after every restart, in words:
- an acknowledged record is where its acknowledgement said, with the bytes that were sent;
- offsets are dense: 0, 1, 2, ... with nothing between them missing;
- an idempotent producer that lived through the kill has its records exactly once, in the order of sending;
- records of a producer that never retries are there at most once.

Process death leaves the page cache alone, so this holds for acks=1 as well as for acks=all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.testing.served import ServedBroker

PARTITIONS = 3
LIMIT_S = 60.0
# A client that forgets its only broker while that is down takes long to find it again: its own affair.
PATIENT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "metadata.recovery.strategy": "none"}
QUIET = {"log_level": 0}
SYNCED, WRITTEN = "synced", "written"  # a topic per level


class Load:
    """One producer, one topic: numbers what it sends and remembers what was acknowledged where."""

    def __init__(self, address: str, topic: str, settings: dict[str, object]) -> None:
        self.topic = topic
        self.sent = [0] * PARTITIONS
        self.acknowledged: list[dict[int, bytes]] = [{} for _ in range(PARTITIONS)]
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 1} | PATIENT | QUIET | settings)

    def send(self, count: int) -> None:
        for _ in range(count):
            partition = random.randrange(PARTITIONS)
            value = b"%d:%d" % (partition, self.sent[partition])
            self._producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
            self.sent[partition] += 1
        self._producer.poll(0)

    def settle(self) -> None:
        left = self._producer.flush(LIMIT_S)
        assert left == 0, f"{left} records neither acknowledged nor refused within {LIMIT_S} s"

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            taken = self.acknowledged[message.partition()].setdefault(message.offset(), message.value())
            assert taken == message.value(), f"offset {message.offset()} was acknowledged twice"
        else:
            assert self.topic == WRITTEN, f"an idempotent record was given up: {error}"


class Reader:
    """Reads every partition of a topic on from where it stopped, and checks that offsets are dense."""

    def __init__(self, address: str, topic: str) -> None:
        self.kept: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self._topic = topic
        settings = {"bootstrap.servers": address, "group.id": "check", "enable.auto.commit": False}
        settings |= {"fetch.wait.max.ms": 20}  # a question about offsets waits behind a fetch
        self._consumer = Consumer(settings | PATIENT | QUIET)

    def catch_up(self) -> None:
        places = [TopicPartition(self._topic, n, len(kept)) for n, kept in enumerate(self.kept)]
        self._consumer.assign(places)
        missing = 0
        for place in places:
            first, end = self._consumer.get_watermark_offsets(place, timeout=LIMIT_S)
            assert first == 0
            missing += end - place.offset
        for message in self._messages(missing):
            kept = self.kept[message.partition()]
            assert message.offset() == len(kept), "offsets are not dense"
            kept.append(message.value())

    def close(self) -> None:
        self._consumer.close()

    def _messages(self, count: int) -> Iterator[Message]:
        deadline = time.monotonic() + LIMIT_S
        while count > 0:
            assert time.monotonic() < deadline, f"{count} records below the high watermark never came"
            for message in self._consumer.consume(min(count, 1000), timeout=0.2):
                error = message.error()
                if error is not None and error.code() == KafkaError.UNSUPPORTED_VERSION:
                    continue  # about the group, which a consumer that is assigned by hand does not use
                assert error is None, error
                count -= 1
                yield message


def check(load: Load, reader: Reader) -> int:
    """Reads what is new and holds it against what was promised; how many promises there were."""
    known = [len(kept) for kept in reader.kept]
    reader.catch_up()
    promises = 0
    for partition, kept in enumerate(reader.kept):
        for offset, value in load.acknowledged[partition].items():
            assert offset < len(kept), f"acknowledged offset {offset} of partition {partition} is lost"
            assert kept[offset] == value, f"offset {offset} of partition {partition} holds something else"
        promises += len(load.acknowledged[partition])
        load.acknowledged[partition].clear()
        numbers = [int(value.partition(b":")[2]) for value in kept[max(0, known[partition] - 1) :]]
        assert all(a < b for a, b in pairwise(numbers)), "a record is there twice, or out of order"
        if load.topic == SYNCED:
            assert len(kept) == load.sent[partition], "a record of the idempotent producer is missing"
    return promises


def kill_under_load(folder: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    with ServedBroker(folder) as broker:
        create_topics(broker.address)
        idempotent = {"enable.idempotence": True, "acks": "all"}
        once = {"acks": 1, "message.send.max.retries": 0}
        loads = [Load(broker.address, SYNCED, idempotent), Load(broker.address, WRITTEN, once)]
        readers = [Reader(broker.address, load.topic) for load in loads]
        promises = [0, 0]
        for _ in range(rounds):
            send_for(loads, chance.uniform(0.05, 0.6))
            broker.kill()
            send_for(loads, chance.uniform(0.0, 0.1))
            broker.start()
            send_for(loads, chance.uniform(0.0, 0.1))
            for n, (load, reader) in enumerate(zip(loads, readers, strict=True)):
                load.settle()
                promises[n] += check(load, reader)
        assert min(promises) > 100 * rounds, "there was hardly any load"
        for load, reader in zip(loads, readers, strict=True):
            reader.close()
            again = Reader(broker.address, load.topic)
            again.catch_up()
            again.close()
            assert again.kept == reader.kept, "what was read before a kill is not what is read now"


def send_for(loads: list[Load], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for load in loads:
            load.send(20)
        time.sleep(0.002)


def create_topics(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address} | QUIET)
    topics = [NewTopic(name, num_partitions=PARTITIONS, replication_factor=1) for name in (SYNCED, WRITTEN)]
    for created in admin.create_topics(topics).values():
        created.result(LIMIT_S)


def test_five_kills_under_load_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    kill_under_load(tmp_path, rounds=5, seed=5)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_hundred_kills_under_load_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    kill_under_load(tmp_path, rounds=100, seed=100)
