"""The HTTP door: the listener and its connections.

It listens from the start. It loads what speaks HTTP when the first client comes, and all routes (FastAPI: half a
second) when the first request comes that is not one of the busiest; off the loop, so that a start is quick and nobody
else waits meanwhile. Requests run on the node's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.doors.http.connection import NOT_LOADED, HttpConnection
from headrace.doors.http.limits import BACKLOG, DRAIN_LOOKS, DRAIN_S, SWEEP_S, HttpLimits
from headrace.doors.http.metrics import HttpMetrics
from headrace.doors.http.waiting import Waiting
from headrace.doors.http.watch import Watch
from headrace.doors.listening import is_taking_connections, listen, take_connections
from headrace.doors.places import Places
from headrace.ports import Background

if TYPE_CHECKING:
    from headrace.doors.http.protocol import Exchanges


class HttpDoor:
    def __init__(
        self,
        broker: Broker,
        watch: Watch,
        background: Background,
        loop: asyncio.AbstractEventLoop,
        limits: HttpLimits,
        monotonic: Callable[[], float],
    ) -> None:
        self.loop, self.limits, self.metrics = loop, limits, HttpMetrics()
        self.exchanges: Exchanges | None = None
        self.places = Places()  # the node gives all its doors the same
        self._broker, self._watch, self._background, self._monotonic = broker, watch, background, monotonic
        self.waiting = Waiting()
        self._connections: dict[HttpConnection, None] = {}
        self._waiting: list[HttpConnection] = []  # for the application to be loaded
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._stopping = False

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def is_listening(self) -> bool:
        return is_taking_connections(self._server)

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Where it will listen."""
        self._server, address = await listen(self.loop, lambda: HttpConnection(self), host, port, BACKLOG)
        return address

    async def serve(self) -> None:
        """Takes connections from now on."""
        assert self._server is not None, "a door is bound before it serves"
        await take_connections(self._server)

    async def stop(self) -> None:
        """Takes nothing new, answers what it took, closes."""
        self._stopping = True
        if self._server is not None:
            self._server.close()
        if self._sweep is not None:
            self._sweep.cancel()
        self.waiting.stop()
        for connection in list(self._connections):
            connection.finish()
        until = self.loop.time() + DRAIN_S
        for _ in range(DRAIN_LOOKS):
            if self.loop.time() >= until or not any(connection.is_busy for connection in self._connections):
                break
            await asyncio.sleep(DRAIN_S / DRAIN_LOOKS)
        for connection in list(self._connections):
            connection.abort()
        if self.exchanges is not None:
            for task in list(self.exchanges.state.tasks):
                task.cancel()
        await asyncio.sleep(0)

    # For connections

    def joined(self, connection: HttpConnection) -> bool:
        """False: there are too many already."""
        self.metrics.opened += 1
        self._connections[connection] = None
        self.places.take()
        if self._stopping or self.places.is_crowded or len(self._connections) > self.limits.max_connections:
            self.metrics.refused += 1
            return False
        if self._sweep is None:
            self._sweep = self.loop.call_later(SWEEP_S, self._look_for_timeouts)
        return True

    def left(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)
        self.places.leave()

    def when_loaded(self, connection: HttpConnection) -> None:
        """The connection begins, now or once the application is there."""
        if self.exchanges is not None:
            connection.begin()
            return
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            self._background.run(self._load, self._loaded)

    # The application

    def _load(self) -> Exchanges:
        from headrace.doors.http.protocol import Exchanges
        from headrace.doors.http.services import Services

        services = Services(self._broker, self._watch, self.limits, self.waiting)
        return Exchanges(services, self._background, self.metrics, self._monotonic, self.loop)

    def _loaded(self, exchanges: Exchanges | None, error: BaseException | None) -> None:
        waiting, self._waiting = self._waiting, []
        self.exchanges = exchanges
        if error is not None:
            self.loop.call_exception_handler({"message": "the HTTP application does not load", "exception": error})
        for connection in waiting:
            if self._stopping:
                connection.abort()
            elif exchanges is None:
                connection.refuse(NOT_LOADED)
            else:
                connection.begin()

    # Time

    def _look_for_timeouts(self) -> None:
        """As long as there is somebody."""
        now = self.loop.time()
        self._sweep = self.loop.call_later(SWEEP_S, self._look_for_timeouts) if self._connections else None
        for connection in list(self._connections):
            if connection.is_overdue(now, self.limits.turn_s):
                self.metrics.timed_out += 1
                connection.abort()
