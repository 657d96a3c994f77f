"""What one small request costs the server's processor, from its frame to the frame of the answer: everything but the
socket and the disk's sync. `python -m bench.requests` prints microseconds for each, and the goal beside them; it fails
when one is missed.

A connection of the real door is fed frames by hand; what it sends goes nowhere. CPU is that of the loop's thread.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from headrace.broker.broker import NewTopic
from headrace.broker.groups.events import Join, Joined, Sync
from headrace.doors.kafka.connection import Connection
from headrace.log.files import OsFiles
from headrace.node.node import Node
from headrace.node.real import RealClock, Threads
from headrace.node.settings import Address, Settings
from headrace.wire.kafka import header
from headrace.wire.kafka.list_offsets import LATEST, AskedOffset, ListOffsetsRequest, encode_request
from headrace.wire.kafka.primitives import string

GOAL_US = 30.0
ROUNDS, AT_ONCE, TRIES = 100, 50, 7  # a try: so many rounds of so many connections with one request each
MAX_TURNS = 1_000_000  # of the loop, to wait for an answer
TOPIC, GROUP = "measured", "a-group-of-consumers"


class Nowhere:
    """A transport that takes everything."""

    def __init__(self) -> None:
        self.answers = 0

    def write(self, data: bytes) -> None:
        self.answers += 1

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 9092

    def get_write_buffer_size(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def feed(connection: Connection, frame: bytes) -> None:
    buffer = connection.get_buffer(-1)
    buffer[: len(frame)] = frame
    connection.buffer_updated(len(frame))


async def main() -> int:
    """How many goals were missed."""
    loop = asyncio.get_running_loop()
    threads = Threads(loop)
    settings = Settings(tempfile.mkdtemp(), kafka=Address("127.0.0.1", 0))
    node = Node(
        settings,
        files=OsFiles(),
        clock=RealClock(),
        background=threads,
        chance=random.Random(1),
        on_event=lambda name, fields: None,
    )
    await node.start()
    await node.broker.create_topics([NewTopic(TOPIC, 1)])
    await node.broker.topics()[0].partitions[0].opened()
    member_id, missed = await _member(node), 0
    for name, frame in (
        ("Heartbeat", _heartbeat(member_id)),
        ("OffsetCommit", _commit(member_id)),
        ("ListOffsets", _list_offsets()),
    ):
        figures = sorted([await _cost_us(node, frame) for _ in range(TRIES)])
        median = figures[len(figures) // 2]
        word = "PASS" if median <= GOAL_US else "short"
        missed += median > GOAL_US
        print(f"{name:13} {median:6.1f} µs ({figures[0]:.1f}-{figures[-1]:.1f})  goal {GOAL_US:.0f} µs  {word}")
    await node.stop()
    threads.close()
    return missed


async def _cost_us(node: Node, frame: bytes) -> float:
    connections = []
    for _ in range(AT_ONCE):
        connection = Connection(node.kafka)
        connection.connection_made(Nowhere())  # type: ignore[arg-type]
        connections.append(connection)
    began = 0.0
    for turn in range(ROUNDS + 1):
        if turn == 1:  # the first opens what has to be opened
            began = time.thread_time()
        for connection in connections:
            feed(connection, frame)
        await _until(lambda: not any(connection.is_busy for connection in connections))
    took = time.thread_time() - began
    for connection in connections:
        connection.connection_lost(None)
    return took / (ROUNDS * AT_ONCE) * 1e6


async def _until(is_so: Callable[[], bool]) -> None:
    for _ in range(MAX_TURNS):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("the node does not answer")


async def _member(node: Node) -> str:
    _without_sync(node)
    joined: list[Joined] = []
    protocols = (("range", b""),)
    event = Join(joined.append, "", "m-1", "consumer", protocols, 60_000, 60_000, asks_twice=False)
    node.broker.groups.join(GROUP, event)
    synced: list[Any] = []
    node.broker.groups.sync(GROUP, Sync(synced.append, "m-1", 1, {}))
    await _until(lambda: bool(synced))
    assert joined[0].error is None and synced[0].error is None
    return "m-1"


def _without_sync(node: Node) -> None:
    """A sync is taken for done as soon as it is asked for."""
    from headrace.log.durability import Durability

    Durability.when_synced = lambda self, end_offset, done: done(None)  # type: ignore[method-assign]


def _heartbeat(member_id: str) -> bytes:
    body = string(GROUP, True) + (1).to_bytes(4, "big") + string(member_id, True) + b"\0" + b"\0"
    return header.question(header.HEARTBEAT, 4, 7, "bench", body)


def _commit(member_id: str) -> bytes:
    body = string(GROUP, True) + (1).to_bytes(4, "big") + string(member_id, True) + b"\0"
    position = (0).to_bytes(4, "big") + (7).to_bytes(8, "big") + (0).to_bytes(4, "big") + b"\x01" + b"\0"
    body += b"\x02" + string(TOPIC, True) + b"\x02" + position + b"\0" + b"\0"
    return header.question(header.OFFSET_COMMIT, 9, 7, "bench", body)


def _list_offsets() -> bytes:
    return encode_request(9, 7, "bench", ListOffsetsRequest([(TOPIC, [AskedOffset(0, -1, LATEST)])]))


if __name__ == "__main__":
    sys.exit(1 if asyncio.run(main()) else 0)
