"""A real node that is killed while transactions are in every state, and what its next life makes of them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.served import ServedBroker

ROUNDS = 5
PARTITIONS = 3


def _transact(address: str, name: str, stop: threading.Event, outcomes: dict[str, str]) -> None:
    count = 0
    while not stop.is_set():
        producer = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": name,
                "transaction.timeout.ms": 5000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        try:
            producer.init_transactions(20)
            while not stop.is_set():
                count += 1
                mark = f"{name}-{count}"
                outcomes[mark] = "unknown"
                producer.begin_transaction()
                for partition in range(PARTITIONS):
                    producer.produce("t", mark.encode(), partition=partition)
                if count % 4 == 0:
                    producer.flush(10)
                    producer.abort_transaction(20)
                    outcomes[mark] = "aborted"
                else:
                    producer.commit_transaction(20)
                    outcomes[mark] = "committed"
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                continue


def _read(address: str) -> list[list[str]]:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "r",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition("t", partition, 0) for partition in range(PARTITIONS)])
    found: list[list[str]] = [[] for _ in range(PARTITIONS)]
    ended: set[int] = set()
    deadline = time.monotonic() + 30
    while len(ended) < PARTITIONS and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error():
            ended.add(message.partition())
        else:
            found[message.partition()].append(message.value().decode())
    consumer.close()
    return found


@pytest.mark.timeout(180)
def test_transactions_are_whole_after_every_kill(tmp_path: Path) -> None:
    served = ServedBroker(tmp_path)
    outcomes: dict[str, str] = {}
    stop = threading.Event()
    workers: list[threading.Thread] = []
    try:
        served.start()
        admin = AdminClient({"bootstrap.servers": served.address, "log_level": 0})
        next(iter(admin.create_topics([NewTopic("t", PARTITIONS, 1)]).values())).result(20)
        for number in range(2):
            arguments = (served.address, f"x{number}", stop, outcomes)
            workers.append(threading.Thread(target=_transact, args=arguments, daemon=True))
            workers[-1].start()
        for round_ in range(ROUNDS):
            time.sleep(1.0 + 0.137 * round_)
            served.kill()
            served.start()
        time.sleep(1.5)
        stop.set()
        for worker in workers:
            worker.join(60)
        time.sleep(7)  # what was left open times out
        found = _read(served.address)
    finally:
        stop.set()
        served.stop()
    assert len({tuple(sorted(values)) for values in found}) == 1, "every transaction is in all partitions or in none"
    assert all(len(set(values)) == len(values) for values in found)
    there = set(found[0])
    assert {mark for mark, outcome in outcomes.items() if outcome == "committed"} <= there
    assert not {mark for mark, outcome in outcomes.items() if outcome == "aborted"} & there
    assert sum(outcome == "committed" for outcome in outcomes.values()) > 10
