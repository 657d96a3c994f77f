"""A broker without doors, on a simulated disk, with members of queues that write down what they are given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from headrace.broker.queues.events import Delivery
from headrace.broker.queues.membership import Membership
from headrace.broker.queues.queue import Queue
from headrace.broker.queues.settings import QueueSettings
from headrace.errors import HeadraceError
from headrace.records.record import Record
from tests.broker.kit import Node

AT_MOST_ONCE = QueueSettings(at_most_once=True)
AT_LEAST_ONCE = QueueSettings()


class Taker:
    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.takes = 0
        self.is_full = False
        self.membership: Membership | None = None
        self.acknowledges = False

    def take(self, deliveries: Sequence[Delivery]) -> bool:
        self.takes += 1
        self.deliveries += deliveries
        if self.acknowledges and self.membership is not None:
            self.membership.acknowledge(places(deliveries))
        return not self.is_full

    @property
    def values(self) -> list[str]:
        return [text(delivery) for delivery in self.deliveries]

    @property
    def attempts(self) -> list[int]:
        return [delivery.attempt for delivery in self.deliveries]

    def clear(self) -> list[str]:
        values, self.deliveries = self.values, []
        return values


def text(delivery: Delivery) -> str:
    return (delivery.record.value or b"").decode()


def places(deliveries: Sequence[Delivery]) -> list[tuple[int, int]]:
    return [(delivery.partition, delivery.record.offset) for delivery in deliveries]


class QueueNode(Node):
    def start(self) -> None:
        super().start()
        self.broker.queues.start()

    async def open(
        self, settings: QueueSettings = AT_LEAST_ONCE, topic: str = "t", group: str = "g", door: str = "lines"
    ) -> Queue:
        queue = await self.do(self.broker.queues.open(door, topic, group, settings))
        assert isinstance(queue, Queue)
        return queue

    def join(self, queue: Queue, name: str = "m", **bounds: int) -> Taker:
        taker = Taker()
        taker.membership = queue.join(name, taker, **bounds)
        return taker

    async def publish(self, *values: str, topic: str = "t", partition: int | None = None, **record: Any) -> None:
        promise = self.broker.new_promise()
        records = [Record(value=value.encode(), **record) for value in values]

        def done(answer: object) -> None:
            if isinstance(answer, HeadraceError):
                promise.set_exception(answer)
            else:
                promise.set_result(None)

        self.broker.publishing.publish_run(topic, records, done, partition=partition)
        await self.do(promise)

    async def settle(self) -> None:
        """Until nothing more happens of itself."""
        for _ in range(30):
            self.world.background.drain()
            await asyncio.sleep(0)

    async def later(self, seconds: float) -> None:
        self.world.clock.ms += round(seconds * 1000)
        self.broker.queues.catch_up()
        await self.settle()

    async def until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(1000):
            if is_so():
                return
            self.world.background.drain()
            await asyncio.sleep(0)
        raise AssertionError("it never came to be so")

    async def restart(self) -> None:
        """As after a kill: nothing that is written is lost, all that was in memory is."""
        self.world.crash()
        self.start()
        await self.settle()

    async def lose_power(self, keep: str = "none") -> None:
        self.world.power_loss(keep)
        self.start()
        await self.settle()


async def started(settings: QueueSettings, topic: dict[str, str] | None = None) -> QueueNode:
    node = QueueNode()
    await node.topic("t", partitions=1, configs=topic or {})
    await node.open(settings)
    return node
