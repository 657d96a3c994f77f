"""Groups that our members share with those of other clients: whoever leads, everybody gets its part, and what one
committed the other goes on from."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from confluent_kafka import Consumer as OtherConsumer

import headrace

LIMIT_S = 60.0


def other_member(address: str, group: str, topic: str, assignor: str) -> OtherConsumer:
    consumer = OtherConsumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": assignor,
        }
    )
    consumer.subscribe([topic])
    return consumer


def share(ours: headrace.GroupConsumer, other: OtherConsumer, count: int, seen: list[bytes]) -> None:
    """Until both have so many partitions."""
    deadline = time.monotonic() + LIMIT_S
    while len(ours.assignment) != count or len(other.assignment()) != count:
        assert time.monotonic() < deadline, (ours.assignment, other.assignment())
        read(ours, other, seen)
    held = {(one.topic, one.partition) for one in other.assignment()}
    assert not held & set(ours.assignment)


def read(ours: headrace.GroupConsumer, other: OtherConsumer, seen: list[bytes]) -> None:
    seen += [record.value or b"" for record in ours.take(100, 0.1)]
    seen += [message.value() for message in other.consume(100, 0.1) if not message.error()]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("first", ["ours", "other"])
def test_our_members_and_others_share_a_group(address: str, topic: str, assignor: str, first: str) -> None:
    seen: list[bytes] = []
    with headrace.connect(address) as client:
        client.admin.create_topic(topic, 4)

        def put(numbers: Sequence[int]) -> None:
            with client.producer() as producer:
                for number in numbers:
                    producer.put(topic, str(number), partition=number % 4)

        put(range(40))
        options = {"group": topic, "assignors": [assignor], "session_timeout": 6.0}
        others = [other_member(address, topic, topic, assignor)] if first == "other" else []
        try:
            if others:
                deadline = time.monotonic() + LIMIT_S
                while len(others[0].assignment()) < 4 and time.monotonic() < deadline:
                    seen += [message.value() for message in others[0].consume(100, 0.1) if not message.error()]
            with client.consumer(topic, **options) as ours:
                if not others:
                    while len(ours.assignment) < 4:
                        seen += [record.value or b"" for record in ours.take(100, 0.1)]
                    others.append(other_member(address, topic, topic, assignor))
                share(ours, others[0], 2, seen)
                put(range(40, 80))
                deadline = time.monotonic() + LIMIT_S
                while len(set(seen)) < 80 and time.monotonic() < deadline:
                    read(ours, others[0], seen)
                ours.commit()
                others[0].commit(asynchronous=False)  # before ours leaves, and the other has to join again
        finally:
            for one in others:
                one.close()
        assert sorted(map(int, set(seen))) == list(range(80))
        assert len(seen) < 80 + 40, "what was committed was read again"
        end = {at.offset for at in client.admin.group_offsets(topic).values()}
        assert end == {20}


def test_members_with_nothing_in_common_are_told_so(headrace_address: str, topic: str) -> None:
    with headrace.connect(headrace_address) as client:
        client.admin.create_topic(topic, 1)
        other = other_member(headrace_address, topic, topic, "roundrobin")
        try:
            deadline = time.monotonic() + LIMIT_S
            while not other.assignment() and time.monotonic() < deadline:
                other.poll(0.1)
            words = pytest.raises(headrace.errors.InconsistentProtocol, match="assignors")
            with client.consumer(topic, group=topic) as ours, words:
                ours.take(1, LIMIT_S)
        finally:
            other.close()
