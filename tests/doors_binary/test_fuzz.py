"""Frames that mean anything: every request is answered or ends its connection, and nothing of ours fails."""

from __future__ import annotations

import asyncio
import random

import pytest

from headrace.broker.broker import NewTopic
from tests.doors_binary.raw import ACK, HEARTBEAT, Raw, bare, block, frame
from tests.doors_binary.running import Running

NUMBERS = ["0", "1", "-1", "2", "x", "", " 1 ", "1_0", "99999999999999999999", "9" * 5000, "1e3", "\u0661", "0x1"]
VALUES: dict[str, list[str]] = {
    "topic": ["t", "t", "t", "two", "none", "", "!system/x", "__consumer_offsets", "..", "a/b", "ä", "x" * 300, "a\nb"],
    "partition": ["0", "0", "0", "1", *NUMBERS],
    "partitions": NUMBERS,
    "retention_hours": NUMBERS,
    "client_id": ["c1", "c2", "", "ü"],
    "offset": NUMBERS,
    "key": ["", "k", "ä" * 100],
    "acks": ["0", "1", "all", "2", "-1", "some", "", "99999"],
    "id": ["a", "b", "", "z" * 1000],
    "group": ["g", "h", "", "\x01", "g" * 300],
    "replay": ["true", "false", ""],
    "auto_ack": ["true", "false", "maybe"],
    "settle": ["ack", "release", "reject", "renew", "what"],
    "prefetch": NUMBERS,
    "created_at": ["soon", ""],
    "": ["nameless"],
}


def some_frame(chance: random.Random, sequence: int) -> bytes:
    names = chance.sample(sorted(VALUES), chance.randrange(0, 9))
    pairs = [(name, chance.choice(VALUES[name])) for name in names]
    if chance.random() < 0.8:
        pairs += [("topic", chance.choice(VALUES["topic"])), ("client_id", "c1")]
    body = chance.randbytes(chance.choice((0, 1, 100, 5000)))
    at_ms = chance.choice((0, 1755518400500, (1 << 64) - 1))
    return bare(chance.choice((1, 2, 3, 4, 5, 6, 7, 7, 7)), sequence, block(pairs), body, at_ms)


async def reads(client: Raw, last: int) -> list[int]:
    """Sequence numbers of what is no message, up to the last request's reply."""
    found = []
    while True:
        got = await client.take()
        if got.type != 1:
            found.append(got.sequence)
        if (got.type, got.sequence) == (HEARTBEAT, last):
            return found


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_clients_mean_every_request_is_answered(binary: Running, seed: int) -> None:
    chance = random.Random(seed)
    made = [NewTopic("t", 2, configs={"headrace.dedup.window.ms": "1000"}), NewTopic("two", 3)]
    await binary.node.broker.create_topics(made)
    clients = [await binary.client() for _ in range(5)]
    last = 1 << 40  # the number of the last request; an offset is never that large
    tasks = [asyncio.create_task(reads(client, last)) for client in clients]
    wanted: dict[Raw, list[int]] = {client: [] for client in clients}
    for round_ in range(40):
        for client in clients:
            chunk = b""
            for number in range(chance.randrange(0, 12)):
                sequence = (1 << 32) + round_ * 100 + number
                made_frame = some_frame(chance, sequence)
                chunk += made_frame
                if int.from_bytes(made_frame[4:8]) != ACK or b"group=" not in made_frame:
                    wanted[client].append(sequence)
            cut = chance.randrange(0, len(chunk) + 1)
            await client.send(chunk[:cut])
            if chance.random() < 0.3:
                await asyncio.sleep(0.001)
            await client.send(chunk[cut:])
    for client in clients:
        await client.send(frame(HEARTBEAT, last, {}))
    for client, task in zip(clients, tasks, strict=True):
        answered = [sequence for sequence in await task if sequence in set(wanted[client])]
        assert answered == wanted[client]
    assert not binary.told("door.closed")


async def test_names_that_are_not_for_clients_are_refused(binary: Running) -> None:
    client = await binary.client()
    for name in ("!system/metrics", "..", "x" * 300, "a\nb"):
        made = await client.create(name)
        assert made.properties["status"] == "error", name
        assert (await client.publish(name, b"x")).properties["status"] == "error"
    await client.create("t")
    await client.subscribe("t", group="g")  # makes the topic that keeps queues
    for name in ("__queue_state", "__consumer_offsets"):
        assert (await client.publish(name, b"x")).properties["status"] == "error", name
