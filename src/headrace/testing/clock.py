"""A clock that can be moved, and the event loop that follows it: the time of a broker under test.

Time runs as it really does, plus whatever a test has added. The loop's own time moves along with the wall clock, so
that everything that waits for a moment (`call_later`, a long poll, a session) comes due when a test moves the clock
there. Time only goes forward.

The loop also knows its sockets, so that a test can cut them off: as a kernel does for a process that was killed.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import re
import socket
import struct
import time
import weakref
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVarTuple

Ts = TypeVarTuple("Ts")

Duration = float | str | timedelta

UNITS_S = {
    "ms": 0.001,
    "millisecond": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "w": 604800.0,
    "week": 604800.0,
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
TIMERS_KEPT = 256  # that are over already, before they are looked through


def nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def duration_s(duration: Duration) -> float:
    """Seconds, a timedelta, or words: `"10 min"`, `"1h 30m"`, `"500ms"`, `"8 days"`."""
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        seconds = _parse(duration)
    else:
        seconds = float(duration)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"time only goes forward, and {duration!r} does not")
    return seconds


def _parse(text: str) -> float:
    seconds, at = 0.0, 0
    while at < len(text) or not text:
        part = _PART.match(text, at)
        word = part[2].lower() if part is not None else ""
        unit = UNITS_S.get(word) or UNITS_S.get(word.removesuffix("s"))
        if part is None or unit is None:
            raise ValueError(f"{text!r} is no duration: 10 min, 1h 30m, 500ms, 8 days are")
        seconds += float(part[1]) * unit
        at = part.end()
    return seconds


class MovableClock:
    """The node's Clock port. It keeps what was added to it over a node's restarts."""

    def __init__(self) -> None:
        self._ahead_ns = 0

    def now_ms(self) -> int:
        return (time.time_ns() + self._ahead_ns) // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead_ns / 1e9

    @property
    def ahead_s(self) -> float:
        """How far it is ahead of the real one."""
        return self._ahead_ns / 1e9

    def move(self, nanoseconds: int) -> None:
        """Only that: whoever waits for the moment is woken by the loop's next turn."""
        self._ahead_ns += nanoseconds


class BrokerClock:
    """What a test sees of it. `advance` returns when everything that came due has been done."""

    def __init__(self, clock: MovableClock, advance: Callable[[float], None]) -> None:
        self._clock, self._advance = clock, advance

    def advance(self, duration: Duration) -> None:
        """Moves the broker's time on: retention, time-outs, sessions, whatever waits for a moment."""
        self._advance(duration_s(duration))

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    @property
    def ahead_s(self) -> float:
        """How far it is ahead of the real one."""
        return self._clock.ahead_s


class MovableLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop (uvloop's time cannot be moved)."""

    def __init__(self, clock: MovableClock) -> None:
        self._clock = clock  # first: the loop asks for the time while it is made
        super().__init__()
        self.slow_callback_duration = float("inf")  # in debug mode, a moved clock is no slow callback
        self.servers: weakref.WeakSet[asyncio.Server] = weakref.WeakSet()
        self.transports: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()
        self._accepted: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = itertools.count()
        self._most_timers = TIMERS_KEPT

    def time(self) -> float:
        return self._clock.monotonic()

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        if len(self._timers) > self._most_timers:
            now = self.time()
            self._timers = [timer for timer in self._timers if timer[0] > now and not timer[2].cancelled()]
            heapq.heapify(self._timers)
            self._most_timers = 2 * len(self._timers) + TIMERS_KEPT
        return handle

    def next_timer(self, after: float) -> float:
        """When the first one comes due after that time, up to which all have been called; infinity when none will."""
        while self._timers and (self._timers[0][0] <= after or self._timers[0][2].cancelled()):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else float("inf")

    # Sockets

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        server = await super().create_server(*args, **kwargs)
        self.servers.add(server)
        return server

    async def _accept_connection2(self, factory: Any, accepted: socket.socket, *args: Any, **kwargs: Any) -> None:
        """As the next. A connection that was accepted just before its server was closed has nobody to serve it, and
        asyncio would forget to close it."""
        self._accepted.add(accepted)
        if any(isinstance(server, asyncio.Server) and not server.sockets for server in (*args, *kwargs.values())):
            accepted.close()
            return
        await super()._accept_connection2(factory, accepted, *args, **kwargs)  # type: ignore[misc]

    def close_accepted(self) -> None:
        """Nothing that was accepted stays open."""
        for accepted in list(self._accepted):
            accepted.close()

    def _make_socket_transport(self, *args: Any, **kwargs: Any) -> asyncio.Transport:
        """asyncio's own hook: every connection, of whichever door, begins here."""
        transport: asyncio.Transport = super()._make_socket_transport(*args, **kwargs)  # type: ignore[misc]
        self.transports.add(transport)
        return transport

    def open_transports(self) -> list[asyncio.Transport]:
        """Oldest first."""
        found = [each for each in self.transports if not each.is_closing()]
        return sorted(found, key=lambda each: str(each.get_extra_info("peername")))


def reset(transport: asyncio.Transport) -> None:
    """The peer sees a reset, as from a machine that has forgotten the connection."""
    end = transport.get_extra_info("socket")
    if end is not None and end.fileno() >= 0:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
