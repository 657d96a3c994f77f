"""Copiers as processes, the inputs they copy, and the history they leave."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.eos import copier
from tests.eos.copier import COPIES, GROUP, INPUTS, PATIENT, QUIET, producer_of
from tests.eos.history import Copy, History, input_text

PARTITIONS = 4
LIMIT_S = 60.0


def create_topics(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address} | QUIET)
    topics = [NewTopic(name, num_partitions=PARTITIONS, replication_factor=1) for name in (INPUTS, COPIES)]
    for created in admin.create_topics(topics).values():
        created.result(LIMIT_S)


class Inputs:
    """Numbered inputs by an idempotent producer: the number of an input is its offset."""

    def __init__(self, address: str) -> None:
        self.counts = [0] * PARTITIONS
        settings = {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 1}
        self._producer = Producer(settings | PATIENT | QUIET)

    def add(self, count: int) -> None:
        for _ in range(count):
            partition = random.randrange(PARTITIONS)
            text = input_text(partition, self.counts[partition])
            self._producer.produce(INPUTS, text, partition=partition, on_delivery=_delivered)
            self.counts[partition] += 1
        self._producer.poll(0)

    def settle(self) -> None:
        assert self._producer.flush(LIMIT_S) == 0, "inputs were neither acknowledged nor refused"


def _delivered(error: KafkaError | None, message: Message) -> None:
    assert error is None, f"an input was given up: {error}"


class Fleet:
    """Copiers by name, each a process; who ends by itself is started again. None outlives the `with`."""

    def __init__(self, address: str, folder: Path, names: list[str], seed: int) -> None:
        self.names, self.journal = names, folder / "journal"
        self.deaths = 0  # by themselves: fenced, or at their wits' end
        self._address, self._folder, self._seed = address, folder, seed
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._zombies: list[subprocess.Popen[bytes]] = []
        self._started = 0

    def __enter__(self) -> Fleet:
        self.revive()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()

    def revive(self) -> None:
        for name in self.names:
            process = self._running.get(name)
            if process is not None and process.poll() is None:
                continue
            self.deaths += process is not None
            self._running[name] = self._start(name)

    def kill(self, name: str) -> None:
        """kill -9; `revive` starts it again."""
        _kill(self._running.pop(name))

    def kill_all(self) -> None:
        for name in list(self._running):
            self.kill(name)
        while self._zombies:
            _kill(self._zombies.pop())

    def freeze(self, name: str) -> None:
        """Its successor starts while it is stopped; `thaw` lets it go on with what it was about to do."""
        zombie = self._running.pop(name)
        zombie.send_signal(signal.SIGSTOP)
        self._zombies.append(zombie)

    def thaw(self) -> None:
        for zombie in self._zombies:
            zombie.send_signal(signal.SIGCONT)

    def fence(self) -> None:
        """Ends what killed copiers left open."""
        for name in self.names:
            producer_of(self._address, name)

    def log(self) -> str:
        return (self._folder / "copiers.log").read_text(errors="replace")

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        self._started += 1
        command = [sys.executable, copier.__file__, self._address, name, str(self.journal)]
        with open(self._folder / "copiers.log", "ab") as log:
            return subprocess.Popen([*command, f"{self._seed}/{self._started}"], stdout=log, stderr=log, env=os.environ)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def positions(address: str) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": GROUP, "isolation.level": "read_committed"} | PATIENT | QUIET
    )
    places = consumer.committed([TopicPartition(INPUTS, n) for n in range(PARTITIONS)], LIMIT_S)
    consumer.close()
    return [max(place.offset, 0) for place in places]


def take_history(address: str, journal: Path, inputs: list[int]) -> History:
    ended = {}
    for line in journal.read_text().splitlines() if journal.exists() else []:
        outcome, _, name = line.partition(" ")
        ended[name] = outcome == "committed"
    stable, ends = (_ends(address, level) for level in ("read_committed", "read_uncommitted"))
    return History(list(inputs), read_copies(address), positions(address), ended, stable, ends)


def _ends(address: str, level: str) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "readers", "isolation.level": level} | PATIENT | QUIET
    )
    places = [TopicPartition(COPIES, n) for n in range(PARTITIONS)]
    found = [consumer.get_watermark_offsets(place, timeout=LIMIT_S)[1] for place in places]
    consumer.close()
    return found


def read_copies(address: str) -> list[list[Copy]]:
    """All that a reader of committed records sees, up to the end that it is told."""
    settings = {"bootstrap.servers": address, "group.id": "readers", "isolation.level": "read_committed"}
    settings |= {"enable.partition.eof": True, "enable.auto.commit": False, "fetch.wait.max.ms": 20}
    consumer = Consumer(settings | PATIENT | QUIET)
    consumer.assign([TopicPartition(COPIES, n, 0) for n in range(PARTITIONS)])
    copies: list[list[Copy]] = [[] for _ in range(PARTITIONS)]
    ends: set[int] = set()
    deadline = time.monotonic() + LIMIT_S
    while len(ends) < PARTITIONS:
        assert time.monotonic() < deadline, "the copies could not be read to their end"
        for message in consumer.consume(1000, timeout=0.2):
            error = message.error()
            if error is None:
                copies[message.partition()].append(Copy.decode(message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                ends.add(message.partition())
            else:
                assert error.retriable(), error
    consumer.close()
    return copies
