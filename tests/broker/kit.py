"""A broker without a door, on a simulated disk."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from headrace.broker.broker import Broker, BrokerSettings, NewTopic
from headrace.broker.partition import Partition
from headrace.broker.publishing import Published
from headrace.broker.topic import Topic
from headrace.cluster import controller
from headrace.cluster.quorum import Quorum
from headrace.cluster.records import ClusterCreated
from headrace.errors import HeadraceError
from headrace.log.config import ignore_error
from headrace.log.reader import ReadResult
from headrace.node.real import LoopTimers
from headrace.records.codec import Record, decode
from tests.log.kit import START_MS, World

Told = list[Published | HeadraceError]


class Node:
    """A broker on a world, whose background works as soon as somebody waits."""

    def __init__(self, world: World | None = None, settings: BrokerSettings | None = None) -> None:
        self.world = world or World()
        self.settings = settings or BrokerSettings()
        self.start()

    def start(self) -> None:
        world = self.world
        self.quorum = Quorum(world.store, world.files, world.clock, 0)
        first = [] if self.quorum.image.cluster_id else [ClusterCreated("c", START_MS)]
        self.quorum.propose(lambda image: [*first, *controller.register_node(image, 0, {}, None)], ignore_error)
        world.background.drain()
        ids = itertools.count(len(self.quorum.image.topics) + 1)
        self.broker = Broker(
            world.store,
            self.quorum,
            0,
            self.settings,
            world.clock,
            world.background,
            asyncio.get_running_loop().create_future,
            lambda: next(ids).to_bytes(16, "big"),
            world.on_event,
            LoopTimers(asyncio.get_running_loop()),
        )

    async def do(self, work: Any) -> Any:
        task = asyncio.ensure_future(work)
        while not task.done():
            self.world.background.drain()
            await asyncio.sleep(0)
        return task.result()

    async def topic(self, name: str = "t", **wish: Any) -> Topic:
        (made,) = await self.do(self.broker.create_topics([NewTopic(name, **wish)]))
        if isinstance(made, HeadraceError):
            raise made
        assert isinstance(made, Topic)
        return made

    async def partition(self, name: str = "t", index: int = 0) -> Partition:
        topic = self.broker.topic(name) or await self.topic(name)
        opened = await self.do(topic.partitions[index].opened())
        assert isinstance(opened, Partition)
        return opened

    def power_loss(self) -> None:
        self.world.power_loss("none")
        self.start()


def produce(node: Node, partition: Partition, data: bytearray) -> int:
    staged = partition.append(data, node.world.clock.now_ms())
    failed = node.broker.flush()
    if failed:
        raise failed[partition]
    return staged.base_offset


def values(partition: Partition, offset: int = 0) -> list[bytes | None]:
    read = partition.read(offset, 1 << 20, at_least_one=True)
    assert isinstance(read, ReadResult)
    return [record.value for piece in read.pieces for record in decode(piece)]


async def settle(node: Node) -> None:
    """Until nothing is under way any more."""
    for _ in range(10):
        await asyncio.sleep(0)
        node.world.background.drain()


async def published(node: Node, topic: str, *records: Record, **options: Any) -> Told:
    told: Told = []
    for record in records:
        node.broker.publishing.publish(topic, record, told.append, **options)
    await settle(node)
    assert len(told) == len(records)
    return told


def texts(*values: str, key: bytes | None = None) -> list[Record]:
    return [Record(key, value.encode()) for value in values]
