"""Groups with the clients that people have: each reads all there is, shares it with another, leaves its position."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaConsumer

from tests.clients.conftest import program
from tests.clients.test_java import CONSUMER, jars, run  # noqa: F401  # a fixture
from tests.support import serving

LIMIT_S = 60.0  # a group of three members is a matter of seconds; the rest is for busy machines
PARTITIONS, COUNT = 4, 200
JOIN_MS = 3000  # a join that a shorter poll leaves is answered, and kafka-python 3.0.12 never looks at the answer


@pytest.fixture
def filled(address: str, topic: str) -> str:
    """A topic of four partitions with two hundred records."""
    fill(address, topic)
    return topic


def fill(address: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(LIMIT_S)
    producer = Producer({"bootstrap.servers": address})
    for number in range(COUNT):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(LIMIT_S) == 0


def consumer(address: str, group: str, **settings: Any) -> Consumer:
    given = {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    more = {name.replace("_", "."): value for name, value in settings.items()}
    quick = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200, "enable.auto.commit": False}
    return Consumer(given | quick | more)


def until(is_so: Callable[[], bool], *polled: Consumer) -> list[str]:
    """Polls until it is so; what came meanwhile."""
    deadline, values = time.monotonic() + LIMIT_S, []
    while not is_so():
        assert time.monotonic() < deadline
        for one in polled:
            message = one.poll(0.05)
            if message is not None:
                assert message.error() is None, message.error()
                values.append(message.value().decode())
    return values


def read(one: Consumer, count: int) -> list[str]:
    values: list[str] = []
    deadline = time.monotonic() + LIMIT_S
    while len(values) < count:
        assert time.monotonic() < deadline, f"{len(values)} of {count}"
        message = one.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
    return values


def committed(address: str, group: str, topic: str) -> list[int]:
    with_group = consumer(address, group)
    found = with_group.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], LIMIT_S)
    with_group.close()
    return [one.offset for one in found]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_two_consumers_share_a_topic_and_one_takes_over_when_the_other_goes(address, filled, strategy):
    group = f"group-{filled}"
    first = consumer(address, group, partition_assignment_strategy=strategy)
    first.subscribe([filled])
    assert sorted(read(first, COUNT), key=int) == [str(number) for number in range(COUNT)]
    first.commit(asynchronous=False)
    second = consumer(address, group, partition_assignment_strategy=strategy)
    second.subscribe([filled])
    until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
    mine = {one.partition for one in first.assignment()}
    assert mine.isdisjoint(one.partition for one in second.assignment())
    first.close()
    until(lambda: len(second.assignment()) == PARTITIONS, second)
    second.close()
    assert committed(address, group, filled) == [COUNT // PARTITIONS] * PARTITIONS


def test_a_static_member_that_comes_back_keeps_its_partitions_without_a_rebalance(address, filled):
    group = f"group-{filled}"
    first = consumer(address, group, group_instance_id="one")
    second = consumer(address, group, group_instance_id="two")
    for one in (first, second):
        one.subscribe([filled])
    until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
    admin = AdminClient({"bootstrap.servers": address})
    held = {one.partition for one in second.assignment()}
    second.close()  # a static member does not leave
    again = consumer(address, group, group_instance_id="two")
    again.subscribe([filled])
    until(lambda: len(again.assignment()) == 2, again, first)
    assert {one.partition for one in again.assignment()} == held
    described = admin.describe_consumer_groups([group])[group].result()
    assert {member.group_instance_id for member in described.members} == {"one", "two"}
    for one in (first, again):
        one.close()


def test_a_consumer_that_assigns_itself_commits_and_goes_on_from_there(address, filled):
    group = f"group-{filled}"
    first = consumer(address, group)
    first.assign([TopicPartition(filled, 1, 0)])
    read(first, 20)
    first.commit(asynchronous=False)
    first.close()
    second = consumer(address, group)
    second.assign([TopicPartition(filled, 1)])
    assert read(second, 1) == [str(20 * PARTITIONS + 1)]
    second.close()
    admin = AdminClient({"bootstrap.servers": address})
    assert group in {one.group_id for one in admin.list_consumer_groups().result().valid}
    admin.delete_consumer_groups([group])[group].result()
    assert committed(address, group, filled) == [-1001] * PARTITIONS


def test_aiokafka_reads_in_a_group_and_goes_on_from_its_commit(address, filled):
    async def members(count: int) -> list[bytes]:
        one = AIOKafkaConsumer(
            filled, bootstrap_servers=address, group_id=f"aio-{filled}", auto_offset_reset="earliest"
        )
        await one.start()
        try:
            return [(await asyncio.wait_for(one.getone(), LIMIT_S)).value for _ in range(count)]
        finally:
            await one.stop()

    first = asyncio.run(members(120))
    second = asyncio.run(members(COUNT - 120))
    assert sorted(map(int, first + second)) == list(range(COUNT))


def test_kafka_python_members_share_a_topic(address, filled):
    found: list[bytes] = []
    held: list[set[int]] = [set(), set()]
    is_over = threading.Event()
    deadline = time.monotonic() + LIMIT_S

    def member(number: int) -> None:
        one = KafkaConsumer(
            filled,
            bootstrap_servers=address,
            group_id=f"kpy-{filled}",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
        )
        while not is_over.is_set() and time.monotonic() < deadline:
            for messages in one.poll(timeout_ms=JOIN_MS).values():
                found.extend(message.value for message in messages)
            held[number] = {place.partition for place in one.assignment()}
            if len(set(found)) == COUNT and is_shared(*held):
                is_over.set()
        one.close()

    threads = [threading.Thread(target=member, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * LIMIT_S)
        assert not thread.is_alive()
    assert is_over.is_set(), f"{len(set(found))} of {COUNT} records came; the members have {held}"
    assert set(map(int, found)) == set(range(COUNT))
    assert committed(address, f"kpy-{filled}", filled) == [COUNT // PARTITIONS] * PARTITIONS


def is_shared(mine: set[int], others: set[int]) -> bool:
    return len(mine) == len(others) == PARTITIONS // 2 and mine | others == set(range(PARTITIONS))


def test_kcat_reads_in_a_group(address, filled):
    command = [program("kcat"), "-b", address, "-G", f"kcat-{filled}", "-c", str(COUNT)]
    shown = subprocess.run(
        [*command, "-X", "auto.offset.reset=earliest", filled], capture_output=True, timeout=LIMIT_S, check=True
    ).stdout
    assert sorted(map(int, shown.split())) == list(range(COUNT))


@pytest.mark.timeout(600)
def test_the_console_consumer_of_kafka_reads_in_a_group(jars, address, filled):  # noqa: F811
    where = ("--bootstrap-server", address, "--topic", filled, "--group", f"java-{filled}", "--from-beginning")
    shown = run(jars, CONSUMER, *where, "--max-messages", str(COUNT), "--timeout-ms", "20000")
    assert sorted(map(int, shown.split())) == list(range(COUNT))
    assert committed(address, f"java-{filled}", filled) == [COUNT // PARTITIONS] * PARTITIONS


def test_after_kill_minus_nine_positions_are_there_and_the_group_goes_on(tmp_path: Path, topic: str) -> None:
    with serving(tmp_path) as node:
        fill(node.address, topic)
        member = consumer(node.address, "survivors", reconnect_backoff_ms=20, reconnect_backoff_max_ms=100)
        member.subscribe([topic])
        read(member, COUNT // 2)
        member.commit(asynchronous=False)
        before = committed(node.address, "survivors", topic)
        node.kill()
        node.start()
        assert committed(node.address, "survivors", topic) == before
        read(member, COUNT // 2)  # the same member, in the same group
        member.commit(asynchronous=False)
        admin = AdminClient({"bootstrap.servers": node.address})
        described = admin.describe_consumer_groups(["survivors"])["survivors"].result(LIMIT_S)
        assert len(described.members) == 1
        member.close()
        assert committed(node.address, "survivors", topic) == [COUNT // PARTITIONS] * PARTITIONS
