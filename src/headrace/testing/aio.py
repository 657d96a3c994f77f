"""The methods of a broker under test as coroutines: `await broker.aio.restart()`. A test's own loop, and the clients in
it, go on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from headrace.testing.broker import Broker

P = ParamSpec("P")
R = TypeVar("R")


class AsyncBroker:
    def __init__(self, broker: Broker) -> None:
        self.start = _twin(broker.start)
        self.stop = _twin(broker.stop)
        self.restart = _twin(broker.restart)
        self.close = _twin(broker.close)
        self.advance = _twin(broker.clock.advance)
        self.crash = _twin(broker.crash)
        self.drop_connections = _twin(broker.drop_connections)
        self.slow_disk = _twin(broker.slow_disk)
        self.fill_disk = _twin(broker.fill_disk)
        self.free_disk = _twin(broker.free_disk)
        self.fail_sync = _twin(broker.fail_sync)
        self.heal = _twin(broker.heal)
        self.settle = _twin(broker.settle)
        self.connections = _twin(broker.connections)
        self.create_topic = _twin(broker.create_topic)
        self.delete_topic = _twin(broker.delete_topic)
        self.topics = _twin(broker.topics)
        self.offsets = _twin(broker.offsets)
        self.produce = _twin(broker.produce)
        self.records = _twin(broker.records)
        self.values = _twin(broker.values)
        self.wait_for = _twin(broker.wait_for)


def _twin(method: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, *args, **kwargs)

    twin.__doc__ = method.__doc__
    return twin
