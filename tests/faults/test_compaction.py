"""Compaction of a node that is written to all the time, with kill -9 in the middle of it, again and again.

What must hold after every restart, in words:
- the last acknowledged record of every key is there; of a key that was deleted last, nothing but its tombstone;
- what was deleted for good does not come back, also when its tombstone has gone;
- offsets rise, and at each is what its acknowledgement said.

A node looks for something to compact every ten seconds, and then goes over its partitions one after the other. So the
kill comes when it has told of one or some of them, and is at work on the next.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from headrace.testing.served import ServedBroker
from tests.support import Wire, assert_no_fault

TOPIC, PARTITIONS = "compacted", 6
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(64 << 10),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "500",
}
KEYS = 12_000  # those that change; beside them some that are deleted once and never written again
PLANTED = 20  # of those, so many more in each round and partition
PLANTED_S = 2.0  # before they are deleted: the tombstones are in another segment then
SENT_AT_ONCE, PAUSE_S = 60, 0.01
VALUE_BYTES = 100
LIMIT_S = 60.0
COMPACTED_WITHIN_S = 120.0  # of a start: the node looks after ten seconds, and is not alone on its machine
MORE_KILLS = 4  # at the most, as long as each came too late: when all partitions were done
# A client that forgets its only broker while that is down takes long to find it again: its own affair.
PATIENT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "metadata.recovery.strategy": "none"}
QUIET = {"log_level": 0}

Content = tuple[bytes, bytes | None]  # key and value; None deletes the key


class Load:
    """An idempotent producer that remembers what was acknowledged where, and so what each key should be."""

    def __init__(self, address: str, chance: random.Random) -> None:
        self.acknowledged: list[dict[int, Content]] = [{} for _ in range(PARTITIONS)]
        self.last: list[dict[bytes, tuple[int, bytes | None]]] = [{} for _ in range(PARTITIONS)]
        self.buried: list[set[bytes]] = [set() for _ in range(PARTITIONS)]
        self.forgotten = [0] * PARTITIONS  # before it, only what was found is remembered
        self.sent = 0
        self._planted: list[list[bytes]] = []
        self._chance = chance
        settings = {"bootstrap.servers": address, "linger.ms": 2, "enable.idempotence": True, "acks": "all"}
        self._producer = Producer(settings | PATIENT | QUIET)

    def send_some(self) -> None:
        for _ in range(SENT_AT_ONCE):
            number = self._chance.randrange(KEYS)
            value = None if self._chance.random() < 0.2 else (b"%d:" % self.sent).ljust(VALUE_BYTES, b"x")
            self._send(number % PARTITIONS, b"key-%d" % number, value)
        self._producer.poll(0)
        time.sleep(PAUSE_S)

    def plant(self) -> None:
        """New keys, written once."""
        self._planted = [[b"planted-%d-%d" % (self.sent, number) for number in range(PLANTED)] for _ in self.buried]
        for partition, keys in enumerate(self._planted):
            for key in keys:
                self._send(partition, key, b"to be forgotten")

    def bury(self) -> None:
        """Deletes what was planted, for good."""
        for partition, keys in enumerate(self._planted):
            for key in keys:
                self._send(partition, key, None)
            self.buried[partition].update(keys)

    def settle(self) -> None:
        left = self._producer.flush(LIMIT_S)
        assert left == 0, f"{left} records were not acknowledged within {LIMIT_S} s"

    def forget(self, found: list[dict[int, Content]]) -> None:
        """What is not in the log any more, so that a long run does not hold all that it ever sent."""
        for partition, promised in enumerate(self.acknowledged):
            self.forgotten[partition] = max(promised, default=-1) + 1
            kept = found[partition]
            self.acknowledged[partition] = {offset: what for offset, what in promised.items() if offset in kept}

    def _send(self, partition: int, key: bytes, value: bytes | None) -> None:
        self._producer.produce(TOPIC, value, key, partition=partition, on_delivery=self._delivered)
        self.sent += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, f"an idempotent record was given up: {error}"
        partition, offset, content = message.partition(), message.offset(), (message.key(), message.value())
        assert self.acknowledged[partition].setdefault(offset, content) == content, f"{offset} was acknowledged twice"
        before, _ = self.last[partition].get(content[0], (-1, None))
        assert offset > before, f"offset {offset} of {content[0]!r} came after {before}"
        self.last[partition][content[0]] = (offset, content[1])


def read_all(address: str) -> list[dict[int, Content]]:
    """Every partition from its start to its end, by offset; offsets rise."""
    settings = {"bootstrap.servers": address, "group.id": "check", "enable.auto.commit": False}
    consumer = Consumer(settings | {"enable.partition.eof": True, "fetch.wait.max.ms": 20} | PATIENT | QUIET)
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found: list[dict[int, Content]] = [{} for _ in range(PARTITIONS)]
    reached = [-1] * PARTITIONS
    ended: set[int] = set()
    deadline = time.monotonic() + LIMIT_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, f"of {PARTITIONS} partitions only {ended} were read to their end"
        for message in consumer.consume(5000, timeout=0.2):
            partition, error = message.partition(), message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(partition)
                continue
            assert message.offset() > reached[partition], f"offset {message.offset()} after {reached[partition]}"
            reached[partition] = message.offset()
            found[partition][message.offset()] = (message.key(), message.value())
    consumer.close()
    return found


def check(load: Load, found: list[dict[int, Content]]) -> None:
    """All that was sent is acknowledged, nothing is being sent."""
    for partition, records in enumerate(found):
        promised, last = load.acknowledged[partition], load.last[partition]
        for offset, content in records.items():
            if offset in promised or offset >= load.forgotten[partition]:
                assert promised.get(offset) == content, f"{partition}/{offset}: {content}, not {promised.get(offset)}"
        values = dict(records.values())  # the last of each key
        for key, (offset, value) in last.items():
            if value is None:
                assert values.get(key) is None, f"{key!r} of partition {partition} was deleted at {offset}: it is back"
            else:
                assert values.get(key) == value, f"the last value of {key!r}, at {partition}/{offset}, is lost"


def compactions(broker: ServedBroker) -> int:
    """How many passes the node has told of, over all its lives."""
    return sum("log.compacted" in line and f"/{TOPIC}" in line for line in broker.log().splitlines())


def send_until(load: Load, true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + COMPACTED_WITHIN_S
    while not true():
        assert time.monotonic() < deadline, f"{what}: not within {COMPACTED_WITHIN_S} s"
        load.send_some()


def compact_and_kill(folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    with ServedBroker(folder) as broker:
        with Wire(broker.address) as wire:
            wire.create_topic(TOPIC, PARTITIONS, CONFIGS)
        load = Load(broker.address, chance)
        amid = 0
        for number in range(kills + MORE_KILLS):
            if number >= kills and amid:
                break
            load.plant()
            buried_at = time.monotonic() + PLANTED_S
            send_until(load, lambda at=buried_at: time.monotonic() > at, "some load")
            load.bury()
            before = compactions(broker)
            enough = before + chance.randint(1, PARTITIONS - 1)
            send_until(load, lambda enough=enough: compactions(broker) >= enough, f"{enough} passes of compaction")
            time.sleep(chance.uniform(0, 0.08))
            broker.kill()
            amid += compactions(broker) - before < PARTITIONS  # the others were still to come
            load.send_some()
            broker.start()
            load.settle()
            found = read_all(broker.address)
            check(load, found)
            load.forget(found)
        enough = compactions(broker) + PARTITIONS
        send_until(load, lambda: compactions(broker) >= enough, "a compaction of every partition")
        load.settle()
        found = read_all(broker.address)
        check(load, found)
        kept = sum(map(len, found))
        gone = [load.buried[n] - {key for key, _ in found[n].values()} for n in range(PARTITIONS)]
        print(
            f"{load.sent} sent, {kept} kept, {compactions(broker)} passes; gone with their tombstones:", *map(len, gone)
        )
        assert amid > 0, "every kill came when all was done"
        assert kept < load.sent / 2, "hardly anything was compacted away"
        assert any(gone), "no tombstone has gone, so none could be missed"
        broker.kill()
        broker.start()
        check(load, read_all(broker.address))
    assert_no_fault(broker)


@pytest.mark.timeout(600)
def test_two_kills_amid_compaction_lose_no_last_value_and_bring_nothing_back(tmp_path: Path) -> None:
    compact_and_kill(tmp_path, kills=2, seed=2)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_thirty_kills_amid_compaction_lose_no_last_value_and_bring_nothing_back(tmp_path: Path) -> None:
    compact_and_kill(tmp_path, kills=30, seed=30)
