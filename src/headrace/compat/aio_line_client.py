"""`AsyncLineClient`: the lines protocol for asyncio.

    async with AsyncLineClient("127.0.0.1", 8888) as client:
        await client.publish("chat", "Hello!")
        await client.subscribe("chat", group="processors")
        async for message in client:
            print(message.offset, message.text)

The rules are those of `LineClient`. Several tasks may ask at once: their requests are sent one behind the other, and
replies come in that order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from types import TracebackType
from typing import Self

from headrace.compat import line_values as values
from headrace.compat.line_values import Inbox, Told
from headrace.errors import ClientClosed, ConnectionFailed, HeadraceError, RequestTimedOut
from headrace.wire.lines.messages import Message


class AsyncLineClient:
    def __init__(self, host: str = values.HOST, port: int = values.PORT, *, timeout: float = values.TIMEOUT_S) -> None:
        self.host, self.port, self.timeout = host, port, timeout
        self._inbox = Inbox()
        self._waiting: deque[asyncio.Future[Told]] = deque()  # for replies, in their order
        self._came = asyncio.Event()
        self._error: HeadraceError | None = ClientClosed("this client is not connected")
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def connect(self) -> Self:
        try:
            async with asyncio.timeout(self.timeout):
                reader, self._writer = await asyncio.open_connection(self.host, self.port)
        except (OSError, TimeoutError) as error:
            raise ConnectionFailed(
                f"{self.host}:{self.port} cannot be reached: {error}; does a lines door listen there?"
            ) from error
        self._error = None
        greeting = self._expect()
        self._reading = asyncio.create_task(self._run(reader))
        await self._reply(greeting)
        return self

    async def close(self) -> None:
        if self._writer is not None:
            if self._error is None:
                self._error = ClientClosed("this client is closed")
                self._writer.write(b"QUIT\n")
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Requests

    async def ping(self) -> None:
        await self._ask(values.command("PING"))

    async def publish(self, topic: str, message: str, message_id: str | None = None) -> bool:
        """When it is stored. False: the topic has stored a message of that id lately, and not this one."""
        reply, _ = await self._ask(values.publish(topic, message, message_id))
        return values.is_stored(reply)

    async def publish_all(self, topic: str, messages: Iterable[str]) -> int:
        """Many at once, without waiting for each; how many there were."""
        lines, count = (values.publish(topic, message, None) for message in messages), 0
        while chunk := list(islice(lines, values.PIPELINED)):
            replies = [self._expect() for _ in chunk]
            await self._send(b"".join(chunk))
            for reply in replies:
                await self._reply(reply)
            count += len(chunk)
        return count

    async def subscribe(self, topic: str, group: str | None = None, *, acknowledge: bool = False) -> str:
        """`group`: each message goes to one of its members. `acknowledge`: until one of them has acknowledged it.
        What the server said to it."""
        return (await self._ask(values.subscribe(topic, group, acknowledge)))[0].text

    async def acknowledge(self, message: Message | str) -> None:
        """By the message, or by its id."""
        await self._ask(values.command("ACK", message if isinstance(message, str) else message.id))

    async def history(self, topic: str, count: int = 10) -> list[Message]:
        """The last `count`, oldest first; 0: all; less than 0: all but so many of the first."""
        return (await self._ask(values.command("HISTORY", topic, count)))[1]

    async def range(self, topic: str, first: int, last: int, limit: int | None = None) -> list[Message]:
        """By offsets, both included."""
        return (await self._ask(values.command("RANGE", topic, first, last, limit)))[1]

    async def since(self, topic: str, time: float | str, limit: int | None = None) -> list[Message]:
        """From the first message at that time on: seconds since 1970, or ISO 8601."""
        return (await self._ask(values.command("SINCE", topic, time, limit)))[1]

    # Messages

    async def receive(self, timeout: float | None = None) -> Message | None:  # noqa: ASYNC109 (as the sync one)
        """The next one; None: none came in time."""
        try:
            async with asyncio.timeout(timeout):
                while not self._inbox.messages:
                    self._check()
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            return None
        return self._inbox.messages.popleft()

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Until the server closes."""
        with contextlib.suppress(ClientClosed, ConnectionFailed):
            while (found := await self.receive()) is not None:
                yield found

    # Inside

    async def _ask(self, line: bytes) -> Told:
        reply = self._expect()
        await self._send(line)
        return await self._reply(reply)

    def _expect(self) -> asyncio.Future[Told]:
        self._check()
        reply: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._waiting.append(reply)
        return reply

    async def _send(self, data: bytes) -> None:
        assert self._writer is not None
        self._writer.write(data)
        with contextlib.suppress(OSError):  # the reader tells of it
            await self._writer.drain()

    async def _reply(self, reply: asyncio.Future[Told]) -> Told:
        try:
            async with asyncio.timeout(self.timeout):
                told = await reply
        except TimeoutError:
            raise RequestTimedOut(f"no reply within {self.timeout} s; whether it was done is not known") from None
        values.accepted(told[0])
        return told

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    async def _run(self, reader: asyncio.StreamReader) -> None:
        error = ConnectionFailed(f"{self.host}:{self.port} closed the connection")
        try:
            while data := await reader.read(values.READ_BYTES):
                self._took(data)
        except OSError as cause:
            error = ConnectionFailed(f"{self.host}:{self.port} closed the connection: {cause}")
        except HeadraceError as refused:
            self._end(refused)
            return
        finally:
            self._end(error)

    def _took(self, data: bytes) -> None:
        inbox = self._inbox
        inbox.take(data)
        while inbox.replies and self._waiting:
            told, waiting = inbox.replies.popleft(), self._waiting.popleft()
            if not waiting.done():  # whoever gave up keeps his place in the order
                waiting.set_result(told)
        if inbox.messages:
            self._came.set()

    def _end(self, error: HeadraceError) -> None:
        if self._error is None:
            self._error = error
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(self._error)
                waiting.exception()  # read once here: nobody may be waiting any more
        self._waiting.clear()
        self._came.set()
