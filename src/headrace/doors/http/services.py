"""What the routes work with: the broker, the node as it looks from outside, and what the door's requests share."""

from __future__ import annotations

import asyncio

from headrace.broker.broker import Broker
from headrace.broker.topic import Topic, check_readable
from headrace.doors.http.limits import HttpLimits
from headrace.doors.http.memory import Memory
from headrace.doors.http.refusals import MISSING, NOT_FOUND, Refused, refused
from headrace.doors.http.waiting import Waiting
from headrace.doors.http.watch import Watch
from headrace.errors import InvalidTopicName

STREAMS_READING = 4  # at a time: for a page each reads a batch at least, and unpacks it, in one of a few threads


class Services:
    def __init__(self, broker: Broker, watch: Watch, limits: HttpLimits, waiting: Waiting) -> None:
        self.broker, self.watch, self.limits, self.waiting = broker, watch, limits, waiting
        self.bodies, self.answers = Memory(limits.bodies_bytes), Memory(limits.answers_bytes)
        self.streams_reading = asyncio.Semaphore(STREAMS_READING)

    def topic(self, name: str) -> Topic:
        try:
            check_readable(name)
        except InvalidTopicName as error:
            raise refused(error) from error
        found = self.broker.topic(name)
        if found is None:
            raise Refused(MISSING, NOT_FOUND)
        return found

    def api_base(self, node_id: int) -> str:
        """Where the http door of a node is; empty when it has none."""
        node = self.broker.quorum.image.nodes.get(node_id)
        address = None if node is None else node.listeners.get("http")
        return "" if address is None else f"http://{address}"
