"""A real node with a binary door on this test's loop, and clients for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headrace.broker.broker import BrokerSettings
from headrace.doors.binary.door import BinaryDoor
from headrace.doors.binary.limits import BinaryLimits
from headrace.log.files import OsFiles
from headrace.node.node import Node
from headrace.node.real import RealClock, Threads
from headrace.node.settings import Address, Settings
from tests.doors_binary.raw import LIMIT_S, Raw


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(int(LIMIT_S / 0.01)):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not so within {LIMIT_S} s")


class Running:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.events: list[tuple[str, dict[str, object]]] = []
        self.faults: list[dict[str, Any]] = []
        self._clients: list[Raw] = []

    @property
    def door(self) -> BinaryDoor:
        door = self.node.doors["binary"]
        assert isinstance(door, BinaryDoor)
        return door

    @property
    def at(self) -> Address:
        return self.node.addresses["binary"]

    async def client(self) -> Raw:
        client = await Raw.connect(self.at.host, self.at.port)
        self._clients.append(client)
        return client

    async def close_clients(self) -> None:
        for client in self._clients:
            client.close()
        await until(lambda: not len(self.door))

    def told(self, event: str) -> list[dict[str, object]]:
        return [fields for name, fields in self.events if name == event]


@asynccontextmanager
async def running(folder: Path, broker: BrokerSettings | None = None, **limits: Any) -> AsyncIterator[Running]:
    loop = asyncio.get_running_loop()
    threads = Threads(loop)
    anywhere = Address("127.0.0.1", 0)
    found: Running
    node = Node(
        Settings(
            data=str(folder / "data"),
            kafka=anywhere,
            binary=anywhere,
            door_limits={"binary": BinaryLimits(**limits)},
            broker=broker or BrokerSettings(),
        ),
        files=OsFiles(),
        clock=RealClock(),
        background=threads,
        chance=random.Random(),
        on_event=lambda name, fields: found.events.append((name, fields)),
        end_background=threads.close,
    )
    found = Running(node)
    loop.set_exception_handler(lambda _, context: found.faults.append(context))
    await node.start()
    try:
        yield found
        await found.close_clients()
    finally:
        await node.stop()
