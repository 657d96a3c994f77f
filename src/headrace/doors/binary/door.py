"""The binary door: the listener, its connections, who subscribes to what, and the heartbeats that all of them get."""

from __future__ import annotations

import asyncio

from headrace.broker.broker import Broker, OnEvent
from headrace.doors.binary import replies
from headrace.doors.binary.connection import BinaryConnection
from headrace.doors.binary.limits import BinaryLimits
from headrace.doors.binary.subscriber import BinarySubscriber, Key
from headrace.doors.tcp.door import TcpDoor


class BinaryDoor(TcpDoor):
    limits: BinaryLimits

    def __init__(
        self, broker: Broker, loop: asyncio.AbstractEventLoop, limits: BinaryLimits, on_event: OnEvent
    ) -> None:
        super().__init__("binary", broker, loop, limits, on_event, lambda: BinaryConnection(self))
        self.subscribers: dict[Key, BinarySubscriber] = {}  # a client is known by its id, on whatever connection
        self._beats_at = loop.time() + limits.heartbeat_ms / 1000

    def look_for_timeouts(self) -> None:
        now, every_s = self.loop.time(), self.limits.heartbeat_ms / 1000
        if every_s and now >= self._beats_at:
            self._beats_at = now + every_s
            beat = replies.heartbeat(0, self.broker.clock.now_ms())
            for connection in self.connections():
                if not connection.is_full:
                    connection.send_soon(beat)
        super().look_for_timeouts()
