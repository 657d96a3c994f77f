"""One connection of an HTTP client: it waits until the application is there, and then belongs to an exchange,
or to what the exchange gives way to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from headrace.doors.http.door import HttpDoor

FULL = b"too many connections; try again later, or raise the limit"
NOT_LOADED = b"the application could not be loaded; the log of the node says why"


class Speaking(Protocol):
    """What is spoken on a connection: HTTP, and after an upgrade a WebSocket."""

    def data_received(self, data: bytes) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, error: Exception | None, /) -> None: ...

    def shutdown(self) -> None:
        """Nothing after what is under way."""
        ...

    @property
    def clients_turn_since(self) -> float | None:
        """When it became the client's turn to go on; None when it is ours."""
        ...

    @property
    def is_answering(self) -> bool: ...


class HttpConnection(asyncio.Protocol):
    def __init__(self, door: HttpDoor) -> None:
        self._door = door
        self._speaking: Speaking | None = None
        self._early = b""  # what was sent before the application was there
        self._unsent = 0
        self._unsent_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is one but in name
        if self._door.joined(self):
            self._door.when_loaded(self)
        else:
            self.refuse(FULL)

    def begin(self) -> None:
        """The application is there."""
        if self._transport.is_closing():
            return
        assert self._door.exchanges is not None
        self._speaking = exchange = self._door.exchanges.new(self._upgrade)
        exchange.connection_made(self._transport)
        if self._early:
            early, self._early = self._early, b""
            self._transport.resume_reading()
            exchange.data_received(early)

    def refuse(self, why: bytes) -> None:
        body = b'{"detail":"%s"}' % why
        head = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        self._transport.write(head % len(body) + b"connection: close\r\n\r\n" + body)
        self._transport.close()

    def _upgrade(self, speaking: Speaking) -> None:
        self._speaking = speaking

    # What the loop tells

    def data_received(self, data: bytes) -> None:
        if self._speaking is not None:
            self._speaking.data_received(data)
        elif not self._transport.is_closing():
            self._early += data
            self._transport.pause_reading()  # one read is enough to wait with

    def pause_writing(self) -> None:
        if self._speaking is not None:
            self._speaking.pause_writing()

    def resume_writing(self) -> None:
        if self._speaking is not None:
            self._speaking.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._door.left(self)
        if self._speaking is not None:
            self._speaking.connection_lost(error)

    # For the door

    def is_overdue(self, now: float, turn_s: float) -> bool:
        """It is the client who does not go on: sends no (whole) request, or takes nothing of its answer."""
        if self._speaking is None:
            return False
        since = self._speaking.clients_turn_since
        if since is not None and now - since > turn_s:
            return True
        unsent = self._transport.get_write_buffer_size()
        if not unsent or unsent != self._unsent:
            self._unsent, self._unsent_since = unsent, now
        return now - self._unsent_since > turn_s

    @property
    def is_busy(self) -> bool:
        return self._speaking is not None and self._speaking.is_answering

    def finish(self) -> None:
        """No request after this one."""
        if self._speaking is not None and not self._transport.is_closing():
            self._speaking.shutdown()

    def abort(self) -> None:
        self._transport.abort()
