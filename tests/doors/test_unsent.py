"""Answers that clients have not taken yet: the budget for them, and what becomes of them when we close."""

from __future__ import annotations

import asyncio
import random
import time

import msgspec

from headrace.doors.tcp.unsent import LITTLE_BYTES, PATIENCE_S, Unsent
from headrace.records.codec import encode
from headrace.records.record import Record
from headrace.wire.kafka import fetch_client, produce_client
from headrace.wire.kafka.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.doors.asking import Asker, another, create

MIB = 1 << 20


class Client:
    """One that has so much to take."""

    def __init__(self, unsent: int) -> None:
        self.unsent = unsent

    def unsent_bytes(self) -> int:
        return self.unsent


def test_up_to_the_budget_there_is_plenty_past_it_little_and_at_twice_the_budget_nothing() -> None:
    unsent = Unsent(10 * MIB)
    client = Client(10 * MIB)
    unsent.slow(client, 0.0)
    assert unsent.room(5 * MIB) == 5 * MIB
    client.unsent += 1
    assert unsent.room(5 * MIB) == LITTLE_BYTES
    client.unsent = 20 * MIB + 1
    assert unsent.room(5 * MIB) == 0


def test_what_is_being_read_from_disk_counts() -> None:
    unsent = Unsent(MIB)
    unsent.reading_bytes += MIB + 1
    assert unsent.room(MIB) == LITTLE_BYTES


def test_little_that_is_unsent_is_found_by_looking_and_forgotten_when_it_is_taken() -> None:
    unsent = Unsent(MIB)
    client = Client(2 * MIB)
    assert unsent.room(MIB) == MIB
    unsent.look(client, 0.0)
    assert unsent.held_bytes() == 2 * MIB
    client.unsent = 0
    unsent.look(client, 1.0)
    client.unsent = 2 * MIB
    assert unsent.held_bytes() == 0


def test_past_the_budget_those_who_took_nothing_for_a_while_are_hopeless_the_longest_first() -> None:
    unsent = Unsent(4 * MIB)
    old, new, quick = Client(3 * MIB), Client(3 * MIB), Client(3 * MIB)
    for client, now in ((old, 0.0), (new, 1.0), (quick, 0.5)):
        unsent.slow(client, now)
    quick.unsent -= 1
    for client in (old, new, quick):
        unsent.look(client, 2.0)
    assert unsent.hopeless(PATIENCE_S - 1) == []
    assert unsent.hopeless(PATIENCE_S) == [old]
    assert unsent.hopeless(PATIENCE_S + 1) == [old, new], "one was not enough, and who takes something is spared"


def test_within_the_budget_nobody_is_hopeless_however_slow() -> None:
    unsent = Unsent(4 * MIB)
    unsent.slow(Client(4 * MIB), 0.0)
    assert unsent.hopeless(1000.0) == []


async def test_who_is_closed_with_an_answer_due_and_takes_none_of_those_before_it_leaves_nothing(asker: Asker) -> None:
    door = asker.node.kafka
    door.limits = msgspec.structs.replace(door.limits, stall_ms=300)
    topic = await create(asker, "t")
    await asker.produce("t", 0, [Record(None, random.Random(1).randbytes(300_000), (), 1)])
    wants = [FetchTopic(None, topic.id, [FetchPartition(0, -1, 0, -1, -1, 100)])]
    large = fetch_client.encode_request(13, 5, None, FetchRequest(topics=wants))
    topics = [("t", None, [(0, encode([Record(None, b"v", (), 1)]))])]
    waits = b"".join(produce_client.encode_request(7, 13, None, None, -1, 5000, topics))
    known = set(door.connections())
    async with another(asker) as deaf:
        assert await deaf.answer(large)
        (connection,) = set(door.connections()) - known
        while not connection.unsent_bytes():
            deaf.writer.write(large)
            await asyncio.sleep(0.01)
        deaf.writer.write(waits + b"\xff\xff\xff\xff")
        deadline = time.monotonic() + 10
        while connection in door.connections():
            assert time.monotonic() < deadline, "it keeps its place and its memory"
            door.look_for_timeouts()
            await asyncio.sleep(0.1)
        assert connection.cause == "malformed"
