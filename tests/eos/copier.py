"""One copier: reads inputs, transforms them, writes them with its positions in one transaction, or aborts on purpose.

It is a library for tests that steer it, and a process for those that kill it. What it was told about its transactions
it writes to a journal, a line each, before it goes on: that file outlives it.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[2]))  # a process of its own knows no other way
from tests.eos.history import Copy, transform

INPUTS, COPIES, GROUP = "inputs", "copies", "copiers"
LIMIT_S = 30.0
MOST_PARTS = 40
ABORTS = 0.25  # of transactions, on purpose
# A client that forgets its only broker while that is down takes long to find it again: its own affair.
PATIENT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "metadata.recovery.strategy": "none"}
QUIET = {"log_level": 0}
_LIVES = count()  # of this process


def producer_of(address: str, name: str) -> Producer:
    """Fences whoever had the name before, and ends what that left open."""
    settings = {"bootstrap.servers": address, "transactional.id": name, "transaction.timeout.ms": 15000, "linger.ms": 1}
    producer = Producer(settings | PATIENT | QUIET)
    attempt(lambda: producer.init_transactions(LIMIT_S))
    return producer


def attempt(action: Callable[[], object]) -> None:
    """Again while the client says that it may be tried again."""
    for _ in range(5):
        try:
            action()
            return
        except KafkaException as refused:
            if not refused.args[0].retriable():
                raise
    action()


class Copier:
    """`places`: partitions to copy, by hand; otherwise the group hands them out."""

    def __init__(self, address: str, name: str, journal: Path, places: list[int] | None = None) -> None:
        self.name = name
        self._life = f"{name}.{os.getpid()}.{next(_LIVES)}"
        self._count = 0
        self._journal = open(journal, "a")  # noqa: SIM115  # as long as the copier
        self._gathered: list[Message] = []
        self._producer = producer_of(address, name)
        settings = {"bootstrap.servers": address, "group.id": GROUP, "enable.auto.commit": False}
        settings |= {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 20}
        if places is None:
            settings |= {"group.instance.id": name, "session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
        self._consumer = Consumer(settings | PATIENT | QUIET)
        if places is None:
            self._consumer.subscribe([INPUTS], on_assign=self._moved, on_revoke=self._moved, on_lost=self._moved)
        else:
            self._consumer.assign(self._standing([TopicPartition(INPUTS, place) for place in places]))

    def close(self) -> None:
        self._consumer.close()
        self._journal.close()

    def gather(self, most: int, wait_s: float = 0.2) -> list[Message]:
        self._gathered = []
        while len(self._gathered) < most:
            message = self._consumer.poll(0.02 if self._gathered else wait_s)
            if message is None:
                break
            error = message.error()
            if error is None:
                self._gathered.append(message)
            elif error.fatal():
                raise KafkaException(error)
        return self._gathered

    def write(self, messages: list[Message], is_meant: bool) -> str:
        """Opens a transaction with copies and positions in it; its name."""
        self._count += 1
        name = f"{self._life}.{self._count}"
        self._producer.begin_transaction()
        after: dict[int, int] = {}
        for part, message in enumerate(messages):
            copy = Copy(transform(message.value().decode()), name, part, len(messages), is_meant)
            self._producer.produce(COPIES, copy.encode(), partition=message.partition())
            after[message.partition()] = message.offset() + 1
        positions = [TopicPartition(INPUTS, partition, offset) for partition, offset in after.items()]
        metadata = self._consumer.consumer_group_metadata()
        attempt(lambda: self._producer.send_offsets_to_transaction(positions, metadata, LIMIT_S))
        return name

    def commit(self, name: str) -> None:
        attempt(lambda: self._producer.commit_transaction(LIMIT_S))
        self._tell("committed", name)

    def abort(self, name: str) -> None:
        self._producer.flush(LIMIT_S)
        attempt(lambda: self._producer.abort_transaction(LIMIT_S))
        self._tell("aborted", name)

    def rewind(self) -> None:
        """To where the group stands: what was read and not committed is read again."""
        for place in self._standing(self._consumer.assignment()):
            self._consumer.seek(place)

    def _standing(self, places: list[TopicPartition]) -> list[TopicPartition]:
        known = self._consumer.committed(places, LIMIT_S) if places else []
        return [TopicPartition(INPUTS, place.partition, max(place.offset, 0)) for place in known]

    def step(self, chance: random.Random) -> None:
        """One transaction, whatever becomes of it. Raises when this copier is over: fenced, or it cannot know."""
        messages = self.gather(chance.randint(1, MOST_PARTS))
        if not messages:
            return
        is_meant = chance.random() >= ABORTS
        name = f"{self._life}.{self._count + 1}"
        try:
            self.write(messages, is_meant)
            if is_meant:
                self.commit(name)
                return
        except KafkaException as refused:
            if not refused.args[0].txn_requires_abort():
                raise
        self.abort(name)
        self.rewind()

    def _moved(self, _consumer: Consumer, _places: list[TopicPartition]) -> None:
        self._gathered.clear()  # somebody else's now, or read again from where the group stands

    def _tell(self, outcome: str, name: str) -> None:
        self._journal.write(f"{outcome} {name}\n")
        self._journal.flush()


def main(address: str, name: str, journal: str, seed: str) -> None:
    chance = random.Random(seed)
    copier = Copier(address, name, Path(journal))
    while True:
        copier.step(chance)


if __name__ == "__main__":
    main(*sys.argv[1:])
