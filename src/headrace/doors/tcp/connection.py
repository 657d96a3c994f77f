"""One connection of a door on plain TCP. A door's own kind is made from it and fills in the hooks.

- What one read brought is one turn: `received` gets all of it, in a buffer that all connections share, and has to copy
  what it keeps. When it returns, the broker writes what the turn published, and answers go out joined.
- `send_soon` is for everything that need not go out this instant. The door sends what all its connections have to say
  in the order in which they began to have something, he whose turn it is last: a subscriber's records are on their way
  before their publisher hears of it.
- Past `unsent_bytes` a connection is full: it is not read, `is_full` says so to who has more for it, and `has_room`
  is called when there is room again. Nothing is dropped, nobody else waits.
- Reading is held as long as anybody holds it (`hold`, `let_go`): a request that has to be answered before the next is
  looked at, too many answers due, a full connection, a door that stops.
- Every way to end has a cause, which is counted; `why` is told in the log. Whatever ends it, `gone` is called once.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from headrace.doors.tcp.limits import (
    JOINED_BYTES,
    KEEPALIVE_COUNT,
    KEEPALIVE_EVERY_S,
    KEEPALIVE_IDLE_S,
    SOON_BYTES,
)
from headrace.errors import HeadraceError
from headrace.ports import Buffer

if TYPE_CHECKING:
    from headrace.doors.tcp.door import TcpDoor

BY_DOOR, BY_ANSWERS, BY_UNSENT, BY_STOP = 1, 2, 4, 8  # who holds the reading


class TcpConnection(asyncio.BufferedProtocol):
    def __init__(self, door: TcpDoor) -> None:
        self.tcp = door
        self.peer = ""
        self.active = True  # something moved since the last sweep
        self.closed = False  # by us, or altogether
        self.cause = "client"  # who ends it, until we do
        self.due = 0  # answers that are not given yet
        self.was_unfinished = 0  # bytes, when the last turn ended
        self.task: asyncio.Task[None] | None = None
        self._limits, self._metrics = door.limits, door.metrics
        self._held = 0
        self._said_all = False  # it will send nothing more
        self._is_gone = False
        self._full = self._write_paused = False
        self._soon: list[Buffer] = []
        self._soon_bytes = 0

    # Hooks

    def opened(self) -> None:
        """The client is there, and may stay."""

    def received(self, data: memoryview) -> None:
        """One turn. A HeadraceError closes the connection as malformed, after what was answered before it."""
        raise NotImplementedError

    def has_room(self) -> None:
        """After `is_full`: there is room again."""

    def gone(self) -> None:
        """It ended: subscriptions and whatever else is the connection's end now."""

    @property
    def unfinished_bytes(self) -> int:
        """What is kept of a message whose rest has not come."""
        return 0

    def words_when_refused(self, why: str) -> bytes:
        """What a client is told that cannot stay, in the door's own protocol."""
        return b""

    # Coming and going

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is one but in name
        match transport.get_extra_info("peername"):
            case (str(host), *_):
                self.peer = host
        transport.set_write_buffer_limits(high=self._limits.unsent_bytes)
        _find_half_open(transport.get_extra_info("socket"), self._limits.take_ms)
        if self.tcp.joined(self):
            self.opened()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._soon.clear()
        self._soon_bytes = 0
        self.tcp.left(self)
        self._leave()

    def close(self, cause: str, why: str | None = None) -> None:
        """After what was sent already; `why` is for the log, `cause` is counted."""
        if self.closed:
            return
        self.flush()
        self.closed, self.cause = True, cause
        self.tcp.closing(self, why)
        self._leave()
        if not self._transport.can_write_eof() or self._transport.is_closing():
            self._transport.close()
            return
        # The client hears the end and what was said before it; closing at once, with bytes of its that nobody read,
        # would take that from it. What it still sends is not looked at; the sweep ends who does not go.
        try:
            self._transport.write_eof()
        except OSError:  # it has gone meanwhile
            self._transport.abort()
            return
        if self._held:
            self._transport.resume_reading()

    def abort(self, cause: str, why: str | None = None) -> None:
        """At once, whatever was not sent yet."""
        if not self.closed:
            self.closed, self.cause = True, cause
            self.tcp.closing(self, why)
            self._leave()
        self._transport.abort()

    def _leave(self) -> None:
        if not self._is_gone:
            self._is_gone = True
            self.tcp.keep(self, 0)
            self.gone()

    # Bytes in

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.tcp.scratch

    def buffer_updated(self, nbytes: int) -> None:
        self.active = True
        if self.closed:
            return
        self._metrics.received_bytes += nbytes
        try:
            self.received(self.tcp.scratch[:nbytes])
        except HeadraceError as error:
            self.tcp.end_turn(self)
            self.close("malformed", str(error))
            return
        self.tcp.end_turn(self)
        unfinished = self.unfinished_bytes
        if unfinished or self.was_unfinished:
            self.tcp.keep(self, unfinished)

    def eof_received(self) -> bool:
        """Who says no more may still wait for answers to what it said: True keeps the way back open."""
        self._said_all = not self.closed and self.is_busy
        self.flush()  # what was to go out soon, before the transport closes by itself
        return self._said_all

    def look_for_end(self) -> None:
        if self._said_all and not self.is_busy and not self.closed:
            self.flush()
            self._transport.close()

    def hold(self, by: int = BY_DOOR) -> None:
        """Not read until it is let go. What was read already is the door's to keep."""
        if not self._held and not self.closed:
            self._transport.pause_reading()
        self._held |= by

    def let_go(self, by: int = BY_DOOR) -> None:
        was, self._held = self._held, self._held & ~by
        if was and not self._held and not self.closed:
            self._transport.resume_reading()

    # Answers that are due

    def expect(self, count: int = 1) -> None:
        self.due += count
        if self.due >= self._limits.max_in_flight:
            self.hold(BY_ANSWERS)

    def answered(self, count: int = 1) -> None:
        self.due -= count
        if self._held & BY_ANSWERS and self.due <= self._limits.max_in_flight // 2:
            self.let_go(BY_ANSWERS)
        if self._said_all:
            self.tcp.loop.call_soon(self.look_for_end)  # the answer is sent first

    @property
    def is_busy(self) -> bool:
        return self.due > 0 or self.task is not None

    # Bytes out

    def send(self, data: Buffer) -> None:
        """Now, after what was to be sent soon."""
        self.flush()
        self._write(data, len(data))

    def send_soon(self, data: Buffer) -> None:
        """When the turn ends, with all else that is sent until then."""
        if self.closed:
            return
        if not self._soon:
            self.tcp.sends_soon(self)
        self._soon.append(data)
        self._soon_bytes += len(data)
        if self._soon_bytes >= SOON_BYTES:
            self.flush()

    def flush(self) -> None:
        out, size = self._soon, self._soon_bytes
        if out:
            self._soon, self._soon_bytes = [], 0
            if len(out) == 1:
                self._write(out[0], size)
            elif size <= JOINED_BYTES:
                self._write(b"".join(out), size)
            elif not self.closed:
                self._transport.writelines(out)
                self._wrote(size)

    def _write(self, data: Buffer, size: int) -> None:
        if not self.closed:
            self._transport.write(data)
            self._wrote(size)

    def _wrote(self, size: int) -> None:
        self.active = True
        self._metrics.sent_bytes += size
        if not self._full and self._transport.get_write_buffer_size() > self._limits.unsent_bytes:
            self._full = True
            self.hold(BY_UNSENT)
            self.tcp.loop.call_soon(self.look_for_room)  # a loop that writes later may find that all fits

    @property
    def is_full(self) -> bool:
        return self._full

    def unsent_bytes(self) -> int:
        """What is not in the kernel's hands yet."""
        return self._transport.get_write_buffer_size() + self._soon_bytes

    def look_for_room(self) -> None:
        if not self._full or self._write_paused or self.closed:
            return
        if self._transport.get_write_buffer_size() <= self._limits.unsent_bytes:
            self._full = False
            self.let_go(BY_UNSENT)
            self.has_room()

    def pause_writing(self) -> None:
        self._write_paused = self._full = True
        self.hold(BY_UNSENT)
        self.tcp.unsent.slow(self, self.tcp.loop.time())

    def resume_writing(self) -> None:
        self._write_paused = False
        self.active = True
        self.tcp.unsent.gone(self)
        self.look_for_room()


def _find_half_open(link: socket.socket | None, take_ms: int) -> None:
    """A peer that vanished without a word: the kernel asks now and then, and gives up on what nobody takes."""
    if link is None:  # a simulated network has none
        return
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_EVERY_S),
        ("TCP_KEEPCNT", KEEPALIVE_COUNT),
        ("TCP_USER_TIMEOUT", take_ms),
        ("TCP_NODELAY", 1),
    ):
        with suppress(OSError, AttributeError):  # not every system has all of them
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    with suppress(OSError):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
