"""One client in one group of one topic.

`SUB <topic> <group>`: at most once; a message is done when it is sent. `SUBACK <topic> <group>`: at least once; what a
client does not acknowledge in time, or had not when it left, goes to another.

A client acknowledges by id, the queue by place: which place an id stands for is kept until it is acknowledged. What it
was too late for is forgotten when newer ones fill the room: locks end in the order in which they began, so behind as
many unsettled deliveries as a member may hold, nothing older is still its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.queues.settings import QueueSettings
from headrace.doors.lines import shown
from headrace.errors import HeadraceError
from headrace.log.config import Done
from headrace.wire.lines import messages
from headrace.wire.lines.commands import Subscribe

if TYPE_CHECKING:
    from headrace.broker.queues.events import Delivery, Place
    from headrace.broker.queues.membership import Membership
    from headrace.broker.queues.queue import Queue
    from headrace.doors.lines.connection import LinesConnection

DOOR = "lines"
HELD_RECORDS = 100  # that a client may have without acknowledging them: some round trips' worth
HELD_BYTES = 4 << 20


class LinesMember:
    def __init__(self, connection: LinesConnection, asked: Subscribe) -> None:
        assert asked.group is not None
        self._connection, self.topic, self.group = connection, asked.topic, asked.group
        self.acknowledges = asked.acknowledged
        self._unsettled: dict[Place, str] = {}  # and its id, in the order of deliveries
        self._places: dict[str, list[Place]] = {}  # by id
        self._queue: Queue | None = None
        self._membership: Membership | None = None

    async def join(self, broker: Broker) -> None:
        settings = QueueSettings(at_most_once=not self.acknowledges, start="end")
        queue = await broker.queues.open(DOOR, self.topic, self.group, settings)
        if not self._connection.closed:
            name = self._connection.peer
            self._queue = queue
            self._membership = queue.join(name, self, max_records=HELD_RECORDS, max_bytes=HELD_BYTES)

    def acknowledge(self, message_id: str, done: Done) -> bool:
        """False: no such message of this group is the client's to acknowledge, and `done` never comes."""
        while (places := self._places.get(message_id)) and self._membership is not None:
            place = places[0]
            self._forget(place)
            kept = _Kept(done)
            if self._membership.acknowledge([place], kept.came):
                kept.go_on()
                return True
        return False

    def when_sent(self, call: Callable[[], None]) -> None:
        """After what the topic has by now is on its way to the group: a topic that was just made is opened first, and a
        position that goes before its records is kept first."""
        if self._queue is None:
            call()
        else:
            self._queue.when_open(partial(self._when_open, self._queue, call))

    def _when_open(self, queue: Queue, call: Callable[[], None], error: HeadraceError | None) -> None:
        if error is not None:
            call()
        else:
            queue.when_sent(lambda error: call())

    def resume(self) -> None:
        if self._membership is not None:
            self._membership.resume()

    def leave(self) -> None:
        if self._membership is not None:
            self._membership.leave()

    # For the queue

    def take(self, deliveries: Sequence[Delivery]) -> bool:
        if self.acknowledges:
            for partition, record, _ in deliveries:
                self._note((partition, record.offset), shown.shown_id(self.topic, partition, record))
        rows = [(partition, record) for partition, record, _ in deliveries]
        return self._connection.deliver(shown.lines(messages.MESSAGE, self.topic, rows), len(rows))

    def _note(self, place: Place, message_id: str) -> None:
        if place in self._unsettled:  # it comes once more
            self._forget(place)
        elif len(self._unsettled) >= HELD_RECORDS:
            self._forget(next(iter(self._unsettled)))
        self._unsettled[place] = message_id
        self._places.setdefault(message_id, []).append(place)

    def _forget(self, place: Place) -> None:
        message_id = self._unsettled.pop(place)
        places = self._places[message_id]
        places.remove(place)
        if not places:
            del self._places[message_id]


class _Kept:
    """Tells who acknowledged, once it is known that there was something to acknowledge: the queue tells either way."""

    __slots__ = ("_came", "_done", "_error", "_goes_on")

    def __init__(self, done: Done) -> None:
        self._done = done
        self._error: HeadraceError | None = None
        self._came = self._goes_on = False

    def came(self, error: HeadraceError | None) -> None:
        self._came, self._error = True, error
        if self._goes_on:
            self._done(error)

    def go_on(self) -> None:
        self._goes_on = True
        if self._came:
            self._done(self._error)
