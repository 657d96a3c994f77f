"""`AsyncBrokerClient`: the binary protocol for asyncio.

    async with AsyncBrokerClient("127.0.0.1", 9999, client_id="me") as client:
        await client.create_topic("events", partitions=3)
        await client.publish("events", "Hello World!", partition=0)
        async for message in await client.subscribe("events", partition=0):
            print(message.text)

The rules are those of `BrokerClient`: requests over one connection, each subscription over its own; what is lost is
made anew, a subscription behind the last message that was taken from it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self, Unpack

from headrace.compat import binary_values as values
from headrace.compat.binary_values import Bounds, Message, Page, PublishedAt, Refused, Request, Wanted
from headrace.errors import ClientClosed, ConnectionFailed, RequestTimedOut
from headrace.wire.binary.decoder import Decoder
from headrace.wire.binary.frame import Frame, MalformedFrame, Type

READ_BYTES = 256 << 10


class AsyncBrokerClient:
    def __init__(
        self,
        host: str = values.HOST,
        port: int = values.PORT,
        client_id: str | None = None,
        *,
        timeout: float = values.REQUEST_TIMEOUT_S,
        heartbeat: float = values.HEARTBEAT_S,
        max_retries: int = values.MAX_RETRIES,
        retry_delay: float = values.RETRY_DELAY_S,
    ) -> None:
        self.host, self.port, self.client_id = host, port, client_id or values.default_client_id()
        self.timeout, self.heartbeat, self.max_retries, self.retry_delay = timeout, heartbeat, max_retries, retry_delay
        self.subscriptions: list[AsyncSubscription] = []
        self._link: _Link | None = None
        self._lock = asyncio.Lock()
        self._is_closed = False

    async def connect(self) -> Self:
        await self._connected()
        return self

    async def close(self) -> None:
        self._is_closed = True
        for subscription in list(self.subscriptions):
            await subscription.close()
        if self._link is not None:
            await self._link.close()

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def create_topic(self, topic: str, partitions: int = 1, retention_hours: int | None = None) -> bool:
        """True: it was made. False: it was there, and stays as it is."""
        return values.created(topic, await self._ask(values.create_topic(topic, partitions, retention_hours)))

    async def publish(
        self,
        topic: str,
        body: bytes | str,
        partition: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> PublishedAt:
        """When it is stored; any number may be under way at once."""
        return values.published(await self._ask(values.publish(topic, body, self.client_id, partition, properties)))

    async def page(
        self, topic: str, *, limit: int | None = None, page: str | None = None, **bounds: Unpack[Bounds]
    ) -> Page:
        """A page of a range, of `limit` messages at most; with the `next_page` of the one before, the next."""
        return values.paged(topic, await self._ask(values.page(topic, self.client_id, bounds, limit, page)))

    async def records(
        self, topic: str, *, limit: int | None = None, **bounds: Unpack[Bounds]
    ) -> AsyncIterator[Message]:
        """A range, page by page; `limit` is of all of it."""
        page: str | None = None
        while limit is None or limit > 0:
            found = await self.page(topic, limit=limit, page=page, **bounds)
            for message in found.messages:
                yield message
            page = found.next_page
            if page is None:
                return
            limit = None if limit is None else limit - len(found.messages)

    async def history(self, topic: str, count: int = 10, partition: int | None = None) -> list[Message]:
        """The last so many, oldest first."""
        return values.paged(topic, await self._ask(values.history(topic, self.client_id, count, partition))).messages

    async def ping(self) -> None:
        await self._ask(Request(Type.HEARTBEAT, {}))

    async def subscribe(
        self,
        topic: str,
        partition: int = 0,
        offset: int = 0,
        *,
        replay: bool = True,
        group: str | None = None,
        auto_ack: bool = True,
    ) -> AsyncSubscription:
        """With `group` and auto_ack=False, a message is acknowledged when the next one is asked for, unless `settle`
        said otherwise."""
        wanted = Wanted(topic, partition, self.client_id, offset, replay, group, auto_ack)
        subscription = AsyncSubscription(self, wanted)
        await subscription.begin(self.max_retries)
        self.subscriptions.append(subscription)
        return subscription

    async def _ask(self, request: Request) -> Frame:
        link = await self._connected()
        return await link.ask(request)

    async def _connected(self) -> _Link:
        async with self._lock:
            if self._is_closed:
                raise ClientClosed("the client is closed")
            if self._link is None or self._link.is_lost:
                self._link = await self.new_link(self.max_retries)
                self._link.start()
            return self._link

    async def new_link(self, retries: int) -> _Link:
        while True:
            try:
                async with asyncio.timeout(self.timeout):
                    return _Link(*await asyncio.open_connection(self.host, self.port), self.timeout, self.heartbeat)
            except (OSError, TimeoutError) as error:
                if not retries or self._is_closed:
                    raise ConnectionFailed(
                        f"no connection to {self.host}:{self.port} ({error}); is a broker with a binary door there?"
                    ) from error
                retries -= 1
                await asyncio.sleep(self.retry_delay)


class AsyncSubscription:
    """An async iterator of messages, until `close`."""

    def __init__(self, client: AsyncBrokerClient, wanted: Wanted) -> None:
        self._client, self._wanted = client, wanted
        self._link: _Link | None = None
        self._frames: deque[Frame] = deque()
        self._unsettled: Message | None = None
        self._is_closed = False

    @property
    def next_offset(self) -> int:
        return self._wanted.offset

    async def begin(self, retries: int) -> None:
        link = await self._client.new_link(retries)
        try:
            reply, early = await link.ask_alone(self._wanted.request())
            values.accepted(reply)
        except BaseException:
            await link.close()
            raise
        self._link = link
        self._frames = deque(early)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        self.settle("ack")
        while not self._is_closed:
            while self._frames:
                frame = self._frames.popleft()
                if frame.type == Type.DATA:
                    message = self._wanted.message(frame)
                    self._wanted = self._wanted.after(message)
                    self._unsettled = message if self._wanted.settles else None
                    return message
            frames = await self._link.read() if self._link is not None else None
            if frames is None:
                await self._again()
            else:
                self._frames.extend(frames)
        raise StopAsyncIteration

    def settle(self, how: str) -> None:
        """The last message: `ack`, `release` (it comes again) or `reject` (to the dead letters)."""
        message, self._unsettled = self._unsettled, None
        if message is not None and self._link is not None:
            self._link.send(self._wanted.settlement(message, how))

    async def close(self) -> None:
        """The broker, if it is there, has seen the end and what was acknowledged when this returns."""
        self._is_closed = True
        if self in self._client.subscriptions:
            self._client.subscriptions.remove(self)
        if self._link is not None:
            await self._link.leave()
            await self._link.close()

    async def _again(self) -> None:
        delay = self._client.retry_delay
        if self._link is not None:
            await self._link.close()
        while not self._is_closed:
            try:
                await self.begin(0)
                break
            except (ConnectionFailed, RequestTimedOut, Refused):  # the old one may not be gone yet
                await asyncio.sleep(delay)
                delay = min(2 * delay, values.MAX_RETRY_DELAY_S)


class _Link:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float, heartbeat: float
    ) -> None:
        self._reader, self._writer, self._timeout, self._heartbeat = reader, writer, timeout, heartbeat
        self._decoder = Decoder(values.MAX_FRAME_BYTES)
        self._sequence = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._task: asyncio.Task[None] | None = None
        self._reading = asyncio.Lock()
        self.is_lost = False

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        self.is_lost = True
        self._writer.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def leave(self) -> None:
        """Says no more; the broker closes when it has answered all."""
        with suppress(OSError, TimeoutError):
            self._writer.write_eof()
            async with asyncio.timeout(values.LEAVE_S), self._reading:
                while await self._reader.read(READ_BYTES):
                    pass

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def ask(self, request: Request) -> Frame:
        sequence = next(self._sequence)
        waiting: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting[sequence] = waiting
        try:
            async with asyncio.timeout(self._timeout):
                self.send(request.encode(sequence))
                await self._writer.drain()
                return await waiting
        except TimeoutError as error:
            raise RequestTimedOut(f"no reply for {self._timeout:g} s; whether it was done is not known") from error
        except OSError as error:
            raise ConnectionFailed(f"the connection was lost ({error}); whether it was done is not known") from error
        finally:
            del self._waiting[sequence]

    async def ask_alone(self, request: Request) -> tuple[Frame, list[Frame]]:
        """The reply, and what came with it: nobody else reads yet."""
        sequence = next(self._sequence)
        self.send(request.encode(sequence))
        try:
            async with asyncio.timeout(self._timeout):
                while (frames := await self.read()) is not None:
                    for place, frame in enumerate(frames):
                        if frame.type in values.ANSWERS and frame.sequence == sequence:
                            return frame, frames[place + 1 :]
        except TimeoutError as error:
            raise RequestTimedOut(f"no reply for {self._timeout:g} s") from error
        raise ConnectionFailed("the connection was lost before the reply came")

    async def _run(self) -> None:
        while (frames := await self.read()) is not None:
            for frame in frames:
                waiting = self._waiting.get(frame.sequence) if frame.type in values.ANSWERS else None
                if waiting is not None and not waiting.done():
                    waiting.set_result(frame)
        self.is_lost = True
        lost = ConnectionFailed("the connection was lost; whether the request was done is not known")
        for waiting in list(self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(lost)

    async def read(self) -> list[Frame] | None:
        """What came; None: nothing will any more. In a silence, heartbeats are sent; a long one is the end."""
        for _ in range(values.SILENT_BEATS):
            try:
                async with asyncio.timeout(self._heartbeat), self._reading:
                    data = await self._reader.read(READ_BYTES)
                return list(self._decoder.feed(data)) if data else None
            except TimeoutError:
                self.send(Request(Type.HEARTBEAT, {}).encode(0))
            except (OSError, MalformedFrame):
                return None
        return None
