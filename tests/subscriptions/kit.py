"""Subscribers that write down what they get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.broker.partition import Partition
from headrace.broker.subscriptions.run import Run
from headrace.records.codec import BatchOptions, Record, encode
from tests.broker.kit import Node, produce
from tests.log.kit import START_MS


class Reader:
    """Takes everything, or only so many runs until it is told to take more."""

    def __init__(self, room: int | None = None) -> None:
        self.room = room
        self.runs: list[Run] = []
        self.values: list[bytes | None] = []
        self.offsets: list[int] = []
        self.losses: list[tuple[str, int]] = []
        self.topics: list[str] = []

    def deliver(self, run: Run) -> bool:
        self.runs.append(run)
        self.topics.append(run.topic.name)
        self.values += [record.value for record in run.records]
        self.offsets += [record.offset for record in run.records]
        if self.room is None:
            return True
        self.room -= 1
        return self.room > 0

    def lost(self, topic: str, count: int) -> None:
        self.losses.append((topic, count))


def publish(node: Node, partition: Partition, *values: bytes, options: BatchOptions | None = None) -> int:
    records = [Record(None, value, (), START_MS) for value in values]
    return produce(node, partition, encode(records, options or BatchOptions()))


async def settle(node: Node, until: Callable[[], bool] = lambda: False, turns: int = 200) -> None:
    """Lets the loop and the disk work."""
    for _ in range(turns):
        node.world.background.drain()
        await asyncio.sleep(0)
        if until():
            return
