"""The Kafka door: the listener, its connections and what they share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TypeVar, cast

from headrace.broker.broker import Broker, OnEvent
from headrace.doors.ending import end_all
from headrace.doors.kafka import errors, registry
from headrace.doors.kafka.api.fetch import Fetch
from headrace.doors.kafka.connection import Connection
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.limits import SCRATCH_BYTES, KafkaLimits
from headrace.doors.kafka.memory import RequestMemory
from headrace.doors.kafka.metrics import KafkaMetrics
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.pipe import Pipe
from headrace.doors.kafka.sessions import Sessions
from headrace.doors.listening import is_taking_connections, listen, take_connections
from headrace.doors.places import Places
from headrace.doors.tcp.unsent import Unsent
from headrace.ports import Background
from headrace.wire.kafka.header import RequestHeader

T = TypeVar("T")

SWEEP_S = 1.0  # how often time-outs are looked for; each is good to that much
DRAIN_S = 5.0  # what a stop gives requests that are under way
BACKLOG = 1024  # connects that the kernel holds for us while a turn runs


class KafkaDoor:
    def __init__(
        self,
        broker: Broker,
        background: Background,
        loop: asyncio.AbstractEventLoop,
        limits: KafkaLimits,
        chance: random.Random,
        on_event: OnEvent,
        advertised: tuple[str, int] | None = None,
    ) -> None:
        """`advertised`: the address that clients are told, when it is not the one at which they reach us."""
        self.broker, self.loop, self.limits, self.advertised = broker, loop, limits, advertised
        self._background, self._on_event = background, on_event
        broker.groups.our_name = from_kafka
        self.metrics = KafkaMetrics(broker.clock.monotonic, self._slow)
        self.scratch = bytearray(SCRATCH_BYTES)
        self.scratch_view = memoryview(self.scratch)
        self.memory = RequestMemory(limits.request_memory_bytes)
        self.unsent = Unsent(limits.unsent_bytes)
        self.pipe = Pipe()
        self.sessions = Sessions(limits.max_sessions, lambda: chance.randrange(1, 1 << 31))
        self.polls: dict[Fetch, None] = {}
        self._connections: dict[Connection, float] = {}
        self._tasks: dict[asyncio.Task[None], Connection] = {}
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self.stopping = False
        self.places = Places()  # the node gives all its doors the same
        self._over_limit = False

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Where it will listen."""
        self._server, address = await listen(self.loop, lambda: Connection(self), host, port, BACKLOG)
        return address

    async def serve(self) -> None:
        """Takes connections from now on."""
        assert self._server is not None, "a door is bound before it serves"
        await take_connections(self._server)
        self._sweep = self.loop.call_later(SWEEP_S, self._look_again)

    async def stop(self) -> None:
        """Takes nothing new, answers what it took, closes."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for poll in list(self.polls):
            poll.hurry()
        try:
            await end_all(
                self._connections,
                self._tasks,
                is_drained=lambda: not any(map(_is_under_way, self._connections)),
                within_s=DRAIN_S,
                close=lambda connection: connection.close(cause="stopping"),
            )
        finally:
            self.pipe.close()

    def connections(self) -> list[Connection]:
        return list(self._connections)

    @property
    def is_listening(self) -> bool:
        return is_taking_connections(self._server)

    # For connections

    def handle(self, buffer: memoryview, end: int, header: RequestHeader, context: Context) -> registry.Handled:
        with errors.counted(partial(self.metrics.failed, header.api_key)):
            return registry.handle(buffer, end, header, context)

    def joined(self, connection: Connection) -> None:
        self._connections[connection] = self.loop.time()
        self.metrics.opened += 1
        self._on_event("kafka.opened", {"peer": connection.peer})
        self.places.take()
        if self.stopping or self.places.is_crowded or len(self._connections) > self.limits.max_connections:
            if not self._over_limit and not self.stopping:
                self._over_limit = True
                self._on_event("kafka.connections-full", {"max_connections": self.limits.max_connections})
            self.metrics.refused += 1
            connection.abort("full")

    def left(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self.metrics.left(connection.cause)
        self.places.leave()
        self.unsent.gone(connection)
        if len(self._connections) < self.limits.max_connections:
            self._over_limit = False
        if connection.poll is not None:
            connection.poll.cancel()
        if connection.task is not None:
            connection.task.cancel()

    def refused(self, connection: Connection, why: str) -> None:
        self._on_event("kafka.closed", {"peer": connection.peer, "why": why})

    def _slow(self, api_key: int, took_s: float, count: int) -> None:
        api = registry.name_of(api_key)
        self._on_event("kafka.slow", {"api": api, "took_ms": int(took_s * 1000), "requests": count})

    def spawn(self, work: Coroutine[object, object, None], owner: Connection) -> None:
        """A connection has one such request at a time: it holds back those behind it."""
        task = owner.task = self.loop.create_task(work)
        self._tasks[task] = owner
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        owner = self._tasks.pop(task)
        if owner.task is task:
            owner.task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self.loop.call_exception_handler({"message": "a handler failed", "exception": error, "task": task})
            owner.close("a fault of ours; the log has it", "fault")

    def in_background(self, work: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.loop.create_future()

        def done(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(cast(T, result))

        self._background.run(work, done)
        return future

    # Time

    def _look_again(self) -> None:
        self._sweep = self.loop.call_later(SWEEP_S, self._look_again)
        self.look_for_timeouts()

    def look_for_timeouts(self) -> None:
        now = self.loop.time()
        idle_s, stall_s = self.limits.idle_ms / 1000, self.limits.stall_ms / 1000
        for connection, since in list(self._connections.items()):
            self.unsent.look(connection, now)
            if connection.active:
                connection.active = False
                self._connections[connection] = now
            elif connection.closed and self.unsent.still_s(connection, now) > stall_s:
                connection.abort(connection.cause)  # its client does not take the last of its answers
            elif connection.is_waiting_for_frame and now - since > stall_s:
                connection.close(f"the rest of a request did not come for {stall_s:.0f} s", "stalled")
            elif now - since > idle_s and not connection.is_busy:
                connection.abort("idle")
            for pending in [p for p in connection.waiting if p.deadline < now]:
                pending.expire()
        for hopeless in self.unsent.hopeless(now):
            assert isinstance(hopeless, Connection)
            self.refused(hopeless, "it takes none of its answers, and memory for them is short")
            hopeless.abort("slow")


def _is_under_way(connection: Connection) -> bool:
    return connection.is_busy or connection.unsent_bytes() > 0
