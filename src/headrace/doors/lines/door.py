"""The lines door: the listener; its connections do the rest."""

from __future__ import annotations

import asyncio

from headrace.broker.broker import Broker, OnEvent
from headrace.doors.lines.connection import LinesConnection
from headrace.doors.tcp.door import TcpDoor
from headrace.doors.tcp.limits import DoorLimits


class LinesDoor(TcpDoor):
    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop, limits: DoorLimits, on_event: OnEvent) -> None:
        super().__init__("lines", broker, loop, limits, on_event, lambda: LinesConnection(self))
