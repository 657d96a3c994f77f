"""`PubSubClient` and `AsyncPubSubClient`: publish and subscribe by patterns, in msgpack, at most once.

    with PubSubClient("127.0.0.1:36912") as client:
        client.subscribe("sensors/*")
        client.publish("sensors/hall", {"celsius": 21.5})
        print(client.recv())        # Message(topic='sensors/hall', value={'celsius': 21.5})

- A value is anything that msgpack has: None, bool, int (-2^63 to 2^64 - 1), float, str, bytes, list, dict, and `Ext`.
- The broker answers nothing. Commands of one client are done in their order; `recv` gives what was published after the
  subscription, and None when the connection has ended. A client that is slow to take messages loses the oldest.
- Any number of threads or tasks may publish and subscribe; one at a time receives.
"""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from headrace.errors import ClientClosed, ClientError, ConnectionFailed, RequestTimedOut
from headrace.wire.msgpack.deliveries import DeliveryReader

ADDRESS = "127.0.0.1:36912"
CONNECT_TIMEOUT_S = 10.0
MAX_DELIVERY_BYTES = 128 << 20  # the largest batch of any door, and with it the largest record
READ_BYTES = 256 << 10

Ext = msgspec.msgpack.Ext


class Raw(bytes):
    """A value that Python has no form for, as its msgpack bytes: a map whose keys are maps."""


class Message(NamedTuple):
    topic: str
    value: Any


class _Inbox:
    """Bytes to messages, for both clients."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._reader = DeliveryReader(MAX_DELIVERY_BYTES)
        self.messages: deque[Message] = deque()

    def take(self, data: bytes) -> None:
        for topic, value in self._reader.receive(data):
            try:
                self.messages.append(Message(topic, msgspec.msgpack.decode(value)))
            except (msgspec.DecodeError, ValueError):
                self.messages.append(Message(topic, Raw(value)))
        if self._reader.fault is not None:
            raise ConnectionFailed(f"what {self._address} sends is not of this protocol: {self._reader.fault}")


def _command(name: str, field: object) -> bytes:
    try:
        return msgspec.msgpack.encode({name: [field]})
    except (TypeError, OverflowError) as error:
        raise ClientError(f"a value that msgpack cannot hold: {error}") from None


def _publishes(messages: Iterable[tuple[str, Any]]) -> bytes:
    return b"".join(_command("Publish", [topic, value]) for topic, value in messages)


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConnectionFailed(f"{address!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _not_reached(address: str, error: OSError) -> ConnectionFailed:
    return ConnectionFailed(f"cannot connect to {address}: {error}; is the broker's msgpack door there?")


class PubSubClient:
    def __init__(self, address: str = ADDRESS, *, timeout: float = CONNECT_TIMEOUT_S) -> None:
        """Connects at once; `timeout` is for that."""
        self.address = address
        try:
            self._socket = socket.create_connection(_place(address), timeout)
        except OSError as error:
            raise _not_reached(address, error) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(None)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._inbox = _Inbox(address)
        self._lock = threading.Lock()
        self._is_closed = False

    def subscribe(self, *patterns: str) -> None:
        """`*` is one or more characters, `?` exactly one. Twice subscribed takes twice to unsubscribe."""
        self._send(b"".join(_command("Subscribe", pattern) for pattern in patterns))

    def unsubscribe(self, *patterns: str) -> None:
        self._send(b"".join(_command("Unsubscribe", pattern) for pattern in patterns))

    def publish(self, topic: str, value: Any) -> None:
        self._send(_command("Publish", [topic, value]))

    def publish_all(self, messages: Iterable[tuple[str, Any]]) -> None:
        """(topic, value) pairs, in one write."""
        self._send(_publishes(messages))

    def recv(self, timeout: float | None = None) -> Message | None:
        """The next message; None when the connection has ended. RequestTimedOut when none came in so many seconds."""
        messages = self._inbox.messages
        until = None if timeout is None else time.monotonic() + timeout
        while not messages:
            data = self._read(until)
            if not data:
                return None
            self._inbox.take(data)
        return messages.popleft()

    def __iter__(self) -> Iterator[Message]:
        """Until the connection ends."""
        while (message := self.recv()) is not None:
            yield message

    def close(self) -> None:
        self._is_closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes who receives
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, data: bytes) -> None:
        with self._lock:
            if self._is_closed:
                raise ClientClosed("the client was closed")
            try:
                self._socket.sendall(data)
            except OSError as error:
                raise ConnectionFailed(f"the connection to {self.address} has ended: {error}") from error

    def _read(self, until: float | None) -> bytes:
        if self._is_closed:
            raise ClientClosed("the client was closed")
        try:
            if until is not None and not self._poll.poll(max(0.0, until - time.monotonic()) * 1000):
                raise RequestTimedOut("no message came in time")
            return self._socket.recv(READ_BYTES)
        except OSError:
            return b""


class AsyncPubSubClient:
    """The same for asyncio: `async with AsyncPubSubClient(...) as client:`."""

    def __init__(self, address: str = ADDRESS, *, timeout: float = CONNECT_TIMEOUT_S) -> None:
        self.address, self._timeout = address, timeout
        self._inbox = _Inbox(address)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._is_closed = False

    async def connect(self) -> Self:
        try:
            opening = asyncio.open_connection(*_place(self.address))
            self._streams = await asyncio.wait_for(opening, self._timeout)
        except OSError as error:
            raise _not_reached(self.address, error) from error
        return self

    async def subscribe(self, *patterns: str) -> None:
        await self._send(b"".join(_command("Subscribe", pattern) for pattern in patterns))

    async def unsubscribe(self, *patterns: str) -> None:
        await self._send(b"".join(_command("Unsubscribe", pattern) for pattern in patterns))

    async def publish(self, topic: str, value: Any) -> None:
        await self._send(_command("Publish", [topic, value]))

    async def publish_all(self, messages: Iterable[tuple[str, Any]]) -> None:
        """(topic, value) pairs, in one write."""
        await self._send(_publishes(messages))

    async def recv(self) -> Message | None:
        """The next message; None when the connection has ended."""
        messages = self._inbox.messages
        while not messages:
            reader, _ = self._connected()
            try:
                data = await reader.read(READ_BYTES)
            except OSError:
                data = b""
            if not data:
                return None
            self._inbox.take(data)
        return messages.popleft()

    async def __aiter__(self) -> AsyncIterator[Message]:
        while (message := await self.recv()) is not None:
            yield message

    async def close(self) -> None:
        self._is_closed = True
        if self._streams is not None:
            _, writer = self._streams
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._is_closed or self._streams is None:
            raise ClientClosed("the client was closed" if self._is_closed else "the client is not connected")
        return self._streams

    async def _send(self, data: bytes) -> None:
        _, writer = self._connected()
        try:
            writer.write(data)
            await writer.drain()
        except OSError as error:
            raise ConnectionFailed(f"the connection to {self.address} has ended: {error}") from error
