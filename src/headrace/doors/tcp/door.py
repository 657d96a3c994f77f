"""A door on plain TCP: the listener, its connections and what they share. A door's own kind is made from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from headrace.broker.broker import Broker, OnEvent
from headrace.doors.ending import end_all
from headrace.doors.listening import is_taking_connections, listen, take_connections
from headrace.doors.places import Places
from headrace.doors.tcp.connection import BY_STOP, TcpConnection
from headrace.doors.tcp.limits import (
    BACKLOG,
    DRAIN_S,
    DRAIN_STUCK,
    LINGER_S,
    SCRATCH_BYTES,
    SWEEP_S,
    DoorLimits,
)
from headrace.doors.tcp.metrics import DoorMetrics
from headrace.doors.tcp.unsent import Unsent


class TcpDoor:
    def __init__(
        self,
        name: str,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        limits: DoorLimits,
        on_event: OnEvent,
        new_connection: Callable[[], TcpConnection],
    ) -> None:
        self.name, self.broker, self.loop, self.limits = name, broker, loop, limits
        self.metrics = DoorMetrics()
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.unsent = Unsent(limits.all_unsent_bytes)
        self.stopping = False
        self.places = Places()  # the node gives all its doors the same
        self._on_event, self._new_connection = on_event, new_connection
        self._connections: dict[TcpConnection, float] = {}  # and since when nothing moved
        self._unfinished: dict[TcpConnection, None] = {}  # who has part of a message, who began first is first
        self._unfinished_bytes = 0
        self._speakers: dict[TcpConnection, None] = {}  # who has something to send soon
        self._flushing = False  # it is due after this turn of the loop
        self._tasks: dict[asyncio.Task[None], TcpConnection] = {}
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._over_limit = False

    def __len__(self) -> int:
        return len(self._connections)

    def connections(self) -> list[TcpConnection]:
        return list(self._connections)

    @property
    def is_listening(self) -> bool:
        return is_taking_connections(self._server)

    @property
    def unfinished_bytes(self) -> int:
        return self._unfinished_bytes

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Where it will listen."""
        self._server, address = await listen(self.loop, self._new_connection, host, port, BACKLOG)
        return address

    async def serve(self) -> None:
        """Takes connections from now on."""
        assert self._server is not None, "a door is bound before it serves"
        await take_connections(self._server)

    async def stop(self) -> None:
        """Takes nothing new, answers what it took, closes."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._connections):
            connection.hold(BY_STOP)
        before, stuck = 0, 0

        def is_drained() -> bool:
            """All is answered and sent, or nobody takes anything any more."""
            nonlocal before, stuck
            unsent = sum(connection.unsent_bytes() for connection in self._connections)
            stuck = stuck + 1 if unsent == before else 0
            before = unsent
            is_busy = any(connection.is_busy for connection in self._connections)
            return not is_busy and (not unsent or stuck >= DRAIN_STUCK)

        await end_all(
            self._connections,
            self._tasks,
            is_drained=is_drained,
            within_s=DRAIN_S,
            close=lambda connection: connection.close("stopping"),
        )

    # For connections: coming and going

    def joined(self, connection: TcpConnection) -> bool:
        """False: it cannot stay."""
        self._connections[connection] = self.loop.time()
        self.metrics.opened += 1
        self._on_event("door.opened", {"door": self.name, "peer": connection.peer})
        if self._sweep is None and not self.stopping:
            self._sweep = self.loop.call_later(SWEEP_S, self._look_again)
        self.places.take()
        is_crowded = self.places.is_crowded
        if not self.stopping and not is_crowded and len(self._connections) <= self.limits.max_connections:
            return True
        if not self._over_limit and not self.stopping:
            self._over_limit = True
            self._on_event("door.connections-full", {"door": self.name, "max_connections": self.limits.max_connections})
        self.metrics.refused += 1
        if is_crowded:  # no time for words: who lingers keeps a file open that the log may need
            connection.abort("full")
            return False
        why = "the node is stopping" if self.stopping else "too many connections"
        if words := connection.words_when_refused(why):
            connection.send(words)
        connection.close("full")
        return False

    def closing(self, connection: TcpConnection, why: str | None) -> None:
        self._connections[connection] = self.loop.time()
        if why is not None:
            self._on_event(
                "door.closed",
                {"door": self.name, "peer": connection.peer, "cause": connection.cause, "why": why},
            )

    def left(self, connection: TcpConnection) -> None:
        self._connections.pop(connection, None)
        self._speakers.pop(connection, None)
        self.keep(connection, 0)
        self.unsent.gone(connection)
        self.metrics.left(connection.cause)
        self.places.leave()
        if len(self._connections) < self.limits.max_connections:
            self._over_limit = False
        if connection.task is not None:
            connection.task.cancel()

    # For connections: turns

    def end_turn(self, connection: TcpConnection) -> None:
        """What the turn published is written, then all that anybody has to say goes out, this connection's last."""
        self.broker.publishing.end_turn()
        speakers = self._speakers
        if speakers:
            if connection in speakers:
                del speakers[connection]
                speakers[connection] = None
            self._flush_all()

    def sends_soon(self, connection: TcpConnection) -> None:
        self._speakers[connection] = None
        if not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush_later)

    def _flush_later(self) -> None:
        self._flushing = False
        self._flush_all()

    def _flush_all(self) -> None:
        while self._speakers:
            speakers, self._speakers = self._speakers, {}
            for speaker in speakers:
                speaker.flush()

    def keep(self, connection: TcpConnection, unfinished: int) -> None:
        """So many bytes of a message are there whose rest has not come."""
        self._unfinished_bytes += unfinished - connection.was_unfinished
        if unfinished <= connection.was_unfinished:  # another message than the one at the last look
            self._unfinished.pop(connection, None)
        if unfinished:
            self._unfinished[connection] = None
        connection.was_unfinished = unfinished
        while self._unfinished_bytes > self.limits.frame_memory_bytes:
            first = next(iter(self._unfinished))
            first.abort("memory", "memory for messages that are not whole is short, and this one was begun first")
            self.keep(first, 0)

    def spawn(self, work: Coroutine[object, object, None], owner: TcpConnection) -> None:
        """One at a time: who asks holds the connection meanwhile. It is cancelled when the connection goes."""
        task = owner.task = self.loop.create_task(work)
        self._tasks[task] = owner
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        owner = self._tasks.pop(task)
        if owner.task is task:
            owner.task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(owner, {"message": "a handler failed", "exception": error, "task": task})
        owner.look_for_end()

    def failed(self, connection: TcpConnection, context: dict[str, object]) -> None:
        """A fault of ours: reported as the loop's own are, and the end of this connection alone."""
        self.loop.call_exception_handler(context)
        connection.close("fault", "a fault of ours; the log has it")

    # Time

    def _look_again(self) -> None:
        self._sweep = self.loop.call_later(SWEEP_S, self._look_again) if self._connections else None
        self.look_for_timeouts()

    def look_for_timeouts(self) -> None:
        """Called each second while there are connections, and by who moves the clock."""
        now = self.loop.time()
        for connection, since in list(self._connections.items()):
            self._look_at(connection, now, now - since)
        for hopeless in self.unsent.hopeless(now):
            assert isinstance(hopeless, TcpConnection)
            hopeless.abort("slow", "it takes nothing of what waits for it, and memory is short")

    def _look_at(self, connection: TcpConnection, now: float, still_s: float) -> None:
        limits = self.limits
        if connection.closed:
            if still_s > LINGER_S:
                connection.abort(connection.cause)
            return
        connection.look_for_room()
        self.unsent.look(connection, now)
        if connection.active:
            connection.active, still_s = False, 0.0
            self._connections[connection] = now
        if connection.was_unfinished and still_s > limits.stall_ms / 1000:
            connection.close("stalled", f"the rest of a message did not come for {limits.stall_ms / 1000:g} s")
        elif self.unsent.still_s(connection, now) > limits.take_ms / 1000:
            connection.abort("slow", f"it took nothing of what waits for it for {limits.take_ms / 1000:g} s")
        elif limits.idle_ms and still_s > limits.idle_ms / 1000 and not connection.is_busy:
            connection.close("idle", f"nothing moved for {limits.idle_ms / 1000:g} s")
