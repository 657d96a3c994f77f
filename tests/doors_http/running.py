"""A real node with a Kafka door and an HTTP door on this test's loop, and a client for each.

`Disk` is the real file system, with two faults to switch on: it is full, or its syncs fail.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from headrace.broker.broker import NewTopic
from headrace.doors.http.limits import HttpLimits
from headrace.log.files import OsFiles
from headrace.node.host import DiskSpace
from headrace.node.node import Node
from headrace.node.real import RealClock, Threads
from headrace.node.settings import Address, Settings
from headrace.ports import Buffer
from headrace.records import codec
from headrace.records.record import Record
from headrace.wire.kafka import produce, produce_client

LIMIT_S = 20.0  # for what takes milliseconds; the machine may be busy
T = TypeVar("T")
VERSION = 7  # of Produce: the last that names topics by name without tags


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(int(LIMIT_S / 0.01)):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not so within {LIMIT_S} s")


class Disk(OsFiles):
    is_full = fails_syncs = False

    def pwritev(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().pwritev(handle, buffers, position)

    def datasync(self, handle: int) -> None:
        if self.fails_syncs:
            raise OSError(errno.EIO, "input/output error")
        super().datasync(handle)


class Running:
    def __init__(self, node: Node, web: httpx.AsyncClient, disk: Disk) -> None:
        self.node, self.web, self.disk = node, web, disk
        self.events: list[tuple[str, dict[str, object]]] = []
        self.faults: list[dict[str, Any]] = []
        self.under_way: list[asyncio.Task[Any]] = []
        self.space: DiskSpace | None = DiskSpace(1 << 40, 1 << 41)

    @property
    def at(self) -> Address:
        return self.node.addresses["http"]

    def begin(self, asking: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A request that a stop may find under way: the client is open until it has ended."""
        task = asyncio.create_task(asking)
        self.under_way.append(task)
        return task

    async def socket(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.at.host, self.at.port)

    async def create(self, name: str, **more: Any) -> None:
        (made,) = await self.node.broker.create_topics([NewTopic(name, **more)])
        assert not isinstance(made, Exception), made

    async def produce(self, topic: str, values: list[bytes], acks: int = 1, requests: int = 1) -> list[int]:
        """Error codes; all requests at once, on a connection of their own."""
        address = self.node.addresses["kafka"]
        reader, writer = await asyncio.open_connection(address.host, address.port)
        now_ms = self.node.clock.now_ms()
        batch = codec.encode([Record(value=value, timestamp_ms=now_ms) for value in values])
        asked = [(topic, None, [(0, batch)])]
        for number in range(requests):
            writer.write(b"".join(produce_client.encode_request(VERSION, number, None, None, acks, 5000, asked)))
        codes = []
        for _ in range(requests if acks else 0):
            answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            found: produce.ProduceResponse = produce_client.decode_response(answer, 4, len(answer), VERSION)
            codes.append(found.topics[0].partitions[0].error)
        writer.close()
        await writer.wait_closed()
        return codes

    async def scrape(self) -> str:
        answer = await self.web.get("/metrics/prometheus")
        assert answer.status_code == 200
        return answer.text


@asynccontextmanager
async def running(folder: Path, **limits: Any) -> AsyncIterator[Running]:
    loop = asyncio.get_running_loop()
    threads, disk = Threads(loop), Disk()
    found: Running
    node = Node(
        Settings(
            str(folder / "data"),
            kafka=Address("127.0.0.1", 0),
            http=Address("127.0.0.1", 0),
            lines=Address("127.0.0.1", 0),
            http_limits=HttpLimits(**limits),
        ),
        files=disk,
        clock=RealClock(),
        background=threads,
        chance=random.Random(7),
        on_event=lambda name, fields: found.events.append((name, fields)),
        disk_space=lambda: found.space,
    )
    async with httpx.AsyncClient(timeout=LIMIT_S) as web:
        found = Running(node, web, disk)
        loop.set_exception_handler(lambda _, context: found.faults.append(context))
        await node.start()
        web.base_url = httpx.URL(f"http://{node.addresses['http']}")
        try:
            yield found
        finally:
            await node.stop()
            if found.under_way:
                await asyncio.wait(found.under_way, timeout=LIMIT_S)
            threads.close()
