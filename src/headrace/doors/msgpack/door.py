"""The msgpack door: the listener, what its connections share, and the numbers that it publishes of itself.

Every ten seconds, to topics under `!system/metrics/`: how many connections there are; how many commands (Subscribe,
Unsubscribe, Publish) came and how many messages were sent to subscribers (each counted for each of them, these too)
since the last time, and per second. Nothing is published that nobody wants.
"""

from __future__ import annotations

import asyncio
import struct

from headrace.broker.broker import Broker, OnEvent
from headrace.doors.msgpack.connection import MsgpackConnection
from headrace.doors.msgpack.limits import MAX_COMMAND_BYTES, READ_BYTES
from headrace.doors.msgpack.outbox import Waiting
from headrace.doors.msgpack.publisher import Publisher
from headrace.doors.tcp.door import TcpDoor
from headrace.doors.tcp.limits import DoorLimits
from headrace.wire.msgpack.commands import PUBLISH, CommandReader
from headrace.wire.msgpack.forms import write_int, write_text

INTERVAL_S = 10.0
PREFIX = "!system/metrics/"


class MsgpackDoor(TcpDoor):
    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop, limits: DoorLimits, on_event: OnEvent) -> None:
        super().__init__("msgpack", broker, loop, limits, on_event, lambda: MsgpackConnection(self))
        self.publisher = Publisher(broker, self.metrics, on_event)
        self.scratch = memoryview(bytearray(READ_BYTES))
        self.waiting = Waiting()
        self._interval: asyncio.TimerHandle | None = None
        self._began = 0.0
        self._commands = self._sent = 0  # when it began

    async def serve(self) -> None:
        await super().serve()
        self._begin_interval()

    async def stop(self) -> None:
        if self._interval is not None:
            self._interval.cancel()
        await super().stop()

    def _begin_interval(self) -> None:
        self._began = self.loop.time()
        self._commands, self._sent = self.metrics.requests, self.metrics.delivered
        self._interval = self.loop.call_later(INTERVAL_S, self._interval_over)

    def _interval_over(self) -> None:
        self.publisher.interval_over()
        seconds = self.loop.time() - self._began
        commands, sent = self.metrics.requests - self._commands, self.metrics.delivered - self._sent
        self._begin_interval()
        self._publish(
            {
                "connections": len(self),
                "commands": commands,
                "commands-per-second": commands / seconds,
                "messages-sent": sent,
                "messages-sent-per-second": sent / seconds,
            }
        )

    def _publish(self, numbers: dict[str, int | float]) -> None:
        """As a client of its own would, but that it is not counted as one."""
        now_ms, reader = self.broker.clock.now_ms(), CommandReader(MAX_COMMAND_BYTES)
        for name, number in numbers.items():
            topic = PREFIX + name
            if self.broker.subscriptions.is_wanted(topic) or self.broker.topic(topic) is not None:
                for event in reader.receive(_publish_command(topic, number), now_ms):
                    assert event[0] == PUBLISH
                    _, _, count, batch, chunk = event
                    self.publisher.publish(topic, count, batch, chunk)
        self.publisher.end_turn()


def _publish_command(topic: str, number: int | float) -> bytes:
    out = bytearray(b"\x81\xa7Publish\x91\x92")
    write_text(out, topic.encode())
    if isinstance(number, float):
        out += struct.pack(">Bd", 0xCB, number)
    else:
        write_int(out, number)
    return bytes(out)
