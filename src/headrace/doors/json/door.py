"""The json door: the listener; its connections do the rest."""

from __future__ import annotations

import asyncio

from headrace.broker.broker import Broker, OnEvent
from headrace.doors.json.connection import JsonConnection
from headrace.doors.tcp.door import TcpDoor
from headrace.doors.tcp.limits import DoorLimits


class JsonDoor(TcpDoor):
    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop, limits: DoorLimits, on_event: OnEvent) -> None:
        super().__init__("json", broker, loop, limits, on_event, lambda: JsonConnection(self))
