"""One connection of a msgpack client: it publishes and subscribes, and is told nothing but what it subscribed to.

- Commands are taken in their order: what is published before a Subscribe is not delivered to it, what comes after it
  is. What one read brought for a topic is one run.
- So much is done in a turn, whatever one read brought; until the rest is done, the connection is not read.
- Whatever waits for a client, it is read: publishers never wait. A subscriber that is slow loses the oldest of what
  waits for it, and stays. Of a topic on disk nothing is lost: it reads on from the log when it has room.
- What is not a command closes the connection.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from headrace.broker.subscriptions.run import Run
from headrace.broker.subscriptions.subscription import PatternSubscription
from headrace.doors.msgpack.limits import MAX_PATTERN_BYTES, MAX_PATTERNS, TURN_COST
from headrace.doors.msgpack.outbox import Outbox
from headrace.doors.tcp.connection import BY_DOOR, BY_UNSENT, TcpConnection
from headrace.errors import CorruptBatch, HeadraceError, LimitReached
from headrace.wire.msgpack import deliveries
from headrace.wire.msgpack.commands import PUBLISH, SUBSCRIBE, CommandReader, Event, MalformedCommand

if TYPE_CHECKING:
    from headrace.doors.msgpack.door import MsgpackDoor
    from headrace.doors.msgpack.publisher import Passing

FORM = "msgpack"  # of runs


class MsgpackConnection(TcpConnection):
    def __init__(self, door: MsgpackDoor) -> None:
        super().__init__(door)
        self.door, self._subscriptions = door, door.broker.subscriptions
        self._reader = CommandReader(door.limits.max_frame_bytes)
        self._events: deque[Event] = deque()  # what was read and is not done
        self._passing: Passing | None = None  # what was published before those, and is not with all who want it
        self._outbox = Outbox(door.waiting)
        self._patterns: PatternSubscription | None = None
        self._pattern_bytes = 0
        self._is_waited_for = False  # a topic on disk has more when there is room

    # Hooks

    def received(self, data: memoryview) -> None:
        self._events.extend(self._reader.receive(data, self.door.broker.clock.now_ms()))
        self._work()

    def has_room(self) -> None:
        while self._outbox and not self.is_full:
            self._send(*self._outbox.take())
        if self._is_waited_for and self._patterns is not None and not self.is_full:
            self._is_waited_for = False
            self._patterns.resume()

    def gone(self) -> None:
        self._events.clear()
        self._passing = None
        self._outbox.clear()
        if self._patterns is not None:
            self._patterns.close()

    def hold(self, by: int = BY_DOOR) -> None:
        """A client that takes nothing may still publish."""
        if by != BY_UNSENT:
            super().hold(by)

    @property
    def unfinished_bytes(self) -> int:
        return len(self._reader)

    @property
    def is_busy(self) -> bool:
        return self._has_more or super().is_busy

    @property
    def _has_more(self) -> bool:
        return bool(self._events) or self._passing is not None

    # Commands

    def _work(self) -> None:
        """As much as goes into a turn. What is no command ends it, after all that came before."""
        try:
            self._take()
        finally:
            self.door.publisher.end_turn()
        if self._has_more:
            self.hold()
            self.tcp.loop.call_soon(self._go_on)
        elif self._reader.fault is not None:
            raise MalformedCommand(self._reader.fault)

    def _go_on(self) -> None:
        """A turn as `received` has it, without bytes. Nobody who reads is above us: what goes wrong ends the connection
        here, or nobody would."""
        if self.closed:
            return
        try:
            self._work()
        except HeadraceError as error:
            self.tcp.end_turn(self)
            self.close("malformed", str(error))
            return
        except Exception as error:  # noqa: BLE001  # it is reported, and ends this connection alone
            self.tcp.end_turn(self)
            self.tcp.failed(self, {"message": "a command could not be taken", "exception": error})
            return
        self.tcp.end_turn(self)
        if not self._has_more:
            self.let_go()
            self.look_for_end()

    def _take(self) -> None:
        metrics, publisher, events, left = self._metrics, self.door.publisher, self._events, TURN_COST
        if self._passing is not None and not self._passing.go_on():
            self._passing = None
        while events and left > 0 and self._passing is None:  # one of those is enough for a turn
            event = events.popleft()
            left -= 1
            if event[0] == PUBLISH:
                _, topic, count, batch, chunk = event
                metrics.requests += count
                self._passing = publisher.publish(topic, count, batch, chunk)
            else:
                kind, pattern = event
                metrics.requests += 1
                self._subscribe(pattern) if kind == SUBSCRIBE else self._unsubscribe(pattern)
                left -= self._patterns.cost - 1 if self._patterns is not None else 0

    def _subscribe(self, pattern: str) -> None:
        if self._patterns is None:
            self._patterns = self._subscriptions.patterns(self)
        self._pattern_bytes += len(pattern)
        if len(self._patterns) >= MAX_PATTERNS or self._pattern_bytes > MAX_PATTERN_BYTES:
            raise LimitReached(f"more than {MAX_PATTERNS} patterns, or {MAX_PATTERN_BYTES} characters of them")
        self._patterns.add(pattern)

    def _unsubscribe(self, pattern: str) -> None:
        if self._patterns is not None and pattern in self._patterns:
            self._pattern_bytes -= len(pattern)
            self._patterns.remove(pattern)

    # Delivery

    def deliver(self, run: Run) -> bool:
        chunk = run.encoded(FORM, _encoded)
        if chunk:
            self.take(chunk, run.count)
        if run.topic.config.is_memory or not (self.is_full or self._outbox):
            return True
        self._is_waited_for = True
        return False

    def take(self, chunk: bytes, count: int) -> None:
        """Deliveries, back to back."""
        if self.closed:
            return
        if self.is_full or self._outbox:
            self._metrics.lost += self._outbox.put(chunk, count)
        else:
            self._send(chunk, count)

    def lost(self, topic: str, count: int) -> None:
        self._metrics.lost += count

    def _send(self, chunk: bytes, count: int) -> None:
        self._metrics.delivered += count
        self.send_soon(chunk)


def _encoded(run: Run) -> bytes:
    chunks, count = [], 0
    for header, body in run.batches():
        try:
            chunk, own = deliveries.encode(run.topic.name, header, body, run.first_offset)
        except CorruptBatch as error:
            run.leave_out(header, error)
            continue
        chunks.append(chunk)
        count += own
    run.count = count
    return b"".join(chunks)
