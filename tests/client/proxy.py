"""A proxy between a client and a real broker that does harm on request: it closes connections before a request or
instead of its answer, keeps answers back, or answers with an error in the broker's place.

`rule` is asked for every request: it gets the api key and how many of that kind came before, and says what to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from headrace.testing.served import ServedBroker
from headrace.wire.kafka import header, produce
from headrace.wire.kafka.leaders import Endpoint, Leader
from headrace.wire.kafka.produce import PartitionResult, TopicResult
from tests.support import serving

PASS, REFUSE, LOSE, HOLD = "pass", "refuse", "lose", "hold"  # or an error code, for Produce
Rule = Callable[[int, int], str | int]


class Proxy:
    def __init__(self) -> None:
        self.rule: Rule = lambda key, number: PASS
        self.seen: Counter[int] = Counter()
        self.new_leader: Endpoint | None = None  # told with refusals of Produce
        self.upstream = ("", 0)
        self.address = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 24)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def drop_all(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            up_reader, up_writer = await asyncio.open_connection(*self.upstream, limit=1 << 24)
        except OSError:
            self._tasks.discard(task)
            writer.transport.abort()
            return
        orders: deque[str | bytes] = deque()
        back = asyncio.create_task(self._answers(up_reader, writer, orders))
        try:
            await self._requests(reader, writer, up_writer, orders, back)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            back.cancel()
            writer.transport.abort()
            up_writer.transport.abort()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up: asyncio.StreamWriter,
        orders: deque[str | bytes],
        back: asyncio.Task[None],
    ) -> None:
        while not back.done():
            frame = await frame_of(reader)
            key = struct.unpack_from(">h", frame)[0]
            order = self.rule(key, self.seen[key])
            self.seen[key] += 1
            if order == REFUSE:
                return
            if isinstance(order, int):
                answer = refusal(frame, order, self.new_leader)
                if orders:
                    orders.append(answer)  # behind the answers that are still to come
                else:
                    writer.write(answer)
                continue
            orders.append(order)
            up.write(struct.pack(">i", len(frame)) + frame)

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, orders: deque[str | bytes]
    ) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await frame_of(reader)
                order = orders.popleft()
                if order == LOSE:
                    break
                if order == HOLD:
                    await asyncio.sleep(3600)
                writer.write(struct.pack(">i", len(frame)) + frame)
                while orders and isinstance(orders[0], bytes):
                    answer = orders.popleft()
                    assert isinstance(answer, bytes)
                    writer.write(answer)
        writer.transport.abort()


async def frame_of(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def refusal(frame: bytes, code: int, new_leader: Endpoint | None = None) -> bytes:
    """The answer to a Produce request that has this error for each partition."""
    head = header.read_header(frame, 0, len(frame))
    request = produce.decode_request(frame, head.end, len(frame), head.version)
    leader = None if new_leader is None else Leader(new_leader.node_id, 1_000)
    topics = [
        TopicResult(
            topic.name,
            topic.topic_id,
            [PartitionResult(partition, code, leader=leader) for partition, _, _ in topic.partitions],
        )
        for topic in request.topics
    ]
    endpoints = [new_leader] if new_leader is not None else []
    return produce.encode_response(head.version, head.correlation_id, topics, 0, endpoints)


@contextlib.asynccontextmanager
async def behind_proxy(folder: Path, *flags: str) -> AsyncIterator[tuple[Proxy, ServedBroker]]:
    """A broker that advertises the proxy's address, so that everything goes through it."""
    proxy = Proxy()
    await proxy.start()
    try:
        with serving(folder, "--kafka-advertised", proxy.address, *flags) as broker:
            host, _, port = broker.address.rpartition(":")
            proxy.upstream = host, int(port)
            yield proxy, broker
            await proxy.stop()
    finally:
        await proxy.stop()
