"""A client of WebSockets by other hands than the server's: the library `wsproto`, over a socket of the test."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

from tests.doors_http.events import Door
from tests.doors_http.running import LIMIT_S

READ_BYTES = 64 << 10


class Refused(Exception):
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__(status, body)
        self.status, self.headers, self.body = status, headers, body


class Closed(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code, self.reason = code, reason


class Socket:
    """`async with Socket(door, "/topics/t/ws") as ws:`. Pings are answered, unless `answers` is off."""

    def __init__(self, door: Door, path: str, answers: bool = True) -> None:
        self._door, self._path, self.answers = door, path, answers
        self.pings = self.pongs = 0
        self._events: list[Event] = []
        self._text = ""

    async def __aenter__(self) -> Socket:
        self.reader, self.writer = await self._door.socket()
        self.wire = WSConnection(ConnectionType.CLIENT)
        self.writer.write(self.wire.send(Request(host="x", target=self._path)))
        first = await self._event()
        if isinstance(first, RejectConnection):
            headers = {name.decode().lower(): value.decode() for name, value in first.headers}
            body = b""
            while first.has_body and isinstance(more := await self._event(), RejectData):
                body += more.data
                if more.body_finished:
                    break
            raise Refused(first.status_code, headers, body)
        assert isinstance(first, AcceptConnection), first
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def _event(self) -> Event:
        while not self._events:
            data = await asyncio.wait_for(self.reader.read(READ_BYTES), LIMIT_S)
            self.wire.receive_data(data or None)
            self._events += self.wire.events()
        return self._events.pop(0)

    # What is sent

    def send(self, event: Event) -> None:
        self.writer.write(self.wire.send(event))

    def say(self, document: Any) -> None:
        self.send(TextMessage(json.dumps(document)))

    # What comes

    async def document(self) -> dict[str, Any]:
        """The next text, as JSON; Closed when the server closes."""
        while True:
            match await self._event():
                case TextMessage(data=data, message_finished=is_whole):
                    self._text += data
                    if is_whole:
                        text, self._text = self._text, ""
                        found: dict[str, Any] = json.loads(text)
                        return found
                case Ping() as ping:
                    self.pings += 1
                    if self.answers:
                        self.send(ping.response())
                case Pong():
                    self.pongs += 1
                case CloseConnection(code=code, reason=reason) as close:
                    if self.answers and self.wire.state.name == "REMOTE_CLOSING":
                        self.send(close.response())
                    raise Closed(code, reason or "")
                case BytesMessage() as unexpected:
                    raise AssertionError(unexpected)

    async def documents(self, count: int) -> list[dict[str, Any]]:
        return [await self.document() for _ in range(count)]

    async def offsets(self, count: int) -> list[int]:
        return [one["offset"] for one in await self.documents(count)]

    async def asked(self, document: Any) -> dict[str, Any]:
        """Its answer, over whatever records come before it."""
        self.say(document)
        return await self.answer()

    async def answer(self) -> dict[str, Any]:
        while "offset" in (found := await self.document()):
            pass
        return found

    async def closed(self) -> Closed:
        try:
            while True:
                await self.document()
        except Closed as closed:
            return closed

    async def is_at_end(self) -> bool:
        """The connection itself is closed by the node."""
        try:
            while data := await asyncio.wait_for(self.reader.read(READ_BYTES), LIMIT_S):
                del data
        except ConnectionError:
            pass
        return True
