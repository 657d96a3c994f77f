"""The smallest door: every line comes back, on a real node's broker, on any loop. A few words do more."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from headrace.doors.tcp.connection import TcpConnection
from headrace.doors.tcp.door import TcpDoor
from headrace.doors.tcp.limits import DoorLimits
from headrace.errors import HeadraceError
from headrace.log.files import OsFiles
from headrace.node.node import Node
from headrace.node.real import RealClock, Threads
from headrace.node.settings import Settings

LIMIT_S = 20.0
loops = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


class EchoConnection(TcpConnection):
    def __init__(self, door: EchoDoor) -> None:
        super().__init__(door)
        self.door = door
        self.rest = b""
        self.log: list[str] = []

    def opened(self) -> None:
        self.door.all.append(self)
        self.log.append("opened")

    def received(self, data: memoryview) -> None:
        *lines, self.rest = (self.rest + bytes(data)).split(b"\n")
        for line in lines:
            match line:
                case b"bad":
                    raise HeadraceError("a bad line")
                case b"fault":
                    self.tcp.spawn(self._fails(), self)
                case b"slow":
                    self.expect()
                    self.hold()
                    self.tcp.loop.call_later(0.2, self._answer)
                case b"flood":
                    self.flood()
                case _:
                    self.send_soon(line + b"\n")

    async def _fails(self) -> None:
        raise RuntimeError("ours")

    def _answer(self) -> None:
        self.send_soon(b"slow\n")
        self.answered()
        self.let_go()

    def flood(self) -> None:
        while not self.is_full:
            self.send_soon(b"x" * 10_000)
        self.log.append("full")

    def has_room(self) -> None:
        self.log.append("room")

    def gone(self) -> None:
        self.log.append("gone")

    @property
    def unfinished_bytes(self) -> int:
        return len(self.rest)

    def words_when_refused(self, why: str) -> bytes:
        return b"no: " + why.encode() + b"\n"


class EchoDoor(TcpDoor):
    def __init__(
        self,
        node: Node,
        limits: DoorLimits,
        on_event: Callable[[str, dict[str, object]], None],
        kind: type[EchoConnection] = EchoConnection,
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__("echo", node.broker, loop, limits, on_event, lambda: kind(self))
        self.all: list[EchoConnection] = []
        self.events: list[tuple[str, dict[str, object]]] = []


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def line(self) -> bytes:
        async with asyncio.timeout(LIMIT_S):
            return await self.reader.readline()

    def say(self, *lines: bytes) -> None:
        self.writer.write(b"".join(line + b"\n" for line in lines))

    async def to_the_end(self) -> bytes:
        async with asyncio.timeout(LIMIT_S):
            return await self.reader.read()


class Echo:
    def __init__(self, door: EchoDoor, port: int, faults: list[dict[str, Any]]) -> None:
        self.door, self.port, self.faults = door, port, faults

    async def client(self) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", self.port, limit=16 << 20))


@asynccontextmanager
async def echo(folder: Path, kind: type[EchoConnection] = EchoConnection, **limits: int) -> AsyncIterator[Echo]:
    loop = asyncio.get_running_loop()
    threads, faults, events = Threads(loop), list[dict[str, Any]](), list[tuple[str, dict[str, object]]]()
    loop.set_exception_handler(lambda _, context: faults.append(context))
    node = Node(
        Settings(data=str(folder / "data"), kafka=None),
        files=OsFiles(),
        clock=RealClock(),
        background=threads,
        chance=random.Random(),
        on_event=lambda name, fields: None,
        end_background=threads.close,
    )
    await node.start()
    door = EchoDoor(node, DoorLimits(**limits), lambda name, fields: events.append((name, fields)), kind)
    door.events = events
    _, port = await door.bind("127.0.0.1", 0)
    await door.serve()
    try:
        yield Echo(door, port, faults)
    finally:
        await door.stop()
        await node.stop()


def run(loop: Callable[[], asyncio.AbstractEventLoop], work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(work)


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(int(LIMIT_S / 0.01)):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not so within {LIMIT_S} s")
