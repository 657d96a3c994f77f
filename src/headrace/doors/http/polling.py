"""Subscribing, polling, committing: a consumer's position in a topic, by itself or in a group.

A group has one consumer at a time, who holds its lease; each of these requests renews it, and so does a poll while it
waits. A position is the offset of the last record that was processed; -1: none. On a topic with several partitions
there is one for each: a request names the partition, or a group's poll takes them in turn, and the commit after it is
for the partition of that poll.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from headrace.broker.partition import Partition
from headrace.broker.ranges import fitting, likely_bytes
from headrace.broker.reading import size_of
from headrace.broker.topic import Topic
from headrace.doors.http.answers import Held, Json
from headrace.doors.http.refusals import BAD, BAD_OFFSET, CONFLICT, HELD, MISSING, NO_CONSUMER, Refused, refused
from headrace.doors.http.services import Services
from headrace.doors.http.values import encoded
from headrace.doors.http.waiting import Client
from headrace.errors import HeadraceError, LeaseHeld, OffsetOutOfRange
from headrace.records.record import Record

MAX_OFFSET = (1 << 63) - 1
RENEW_S = 3.0  # a poll that waits renews its group's lease so often: well within the lease's ten seconds
ANYBODY = "_anon"
MAX_NAME = 200  # characters of a group's or a consumer's name
PAGE_COST = 1 << 10  # bytes that a look counts for besides what it finds
MAX_TURNS = 10_000  # groups of which it is known which partition they read last: forgotten, they begin with the first


class Consumer(msgspec.Struct, frozen=True):
    """Who asks, and for what."""

    topic: str
    consumer_id: str | None = None
    group_id: str | None = None
    partition: int | None = None


class Poll(msgspec.Struct, frozen=True):
    consumer: Consumer
    from_offset: int | None = None
    max_records: int = 100
    timeout_ms: int = 15_000


class _Found(NamedTuple):
    """What a poll came to."""

    partition: Partition
    committed: int
    start: int
    records: list[Record]
    held: int  # bytes of the door's memory


class Positions:
    """What consumers have processed, and whose turn it is among a group's partitions."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._turns: dict[tuple[str, str], int] = {}  # by topic and group: the partition of the last poll

    async def subscribe(self, consumer: Consumer, from_offset: int | None) -> Json:
        topic, partition = await self._admit(consumer)
        committed, start = await self.start(topic, partition, consumer, from_offset)
        answer = {
            "topic": topic.name,
            "start_offset": start,
            "committed": committed,
            "replica_id": self._services.broker.node_id,
        }
        return Json(_with_partition(answer, topic, partition, consumer))

    async def commit(self, consumer: Consumer, offset: int) -> Json:
        if not -1 <= offset <= MAX_OFFSET:
            raise Refused(BAD, BAD_OFFSET)
        topic, partition = await self._admit(consumer)
        if consumer.partition is None and len(topic.partitions) > 1 and _turn(topic, consumer) not in self._turns:
            # After a restart: a guess would put one partition's offset into another, and records would be passed over.
            raise Refused(BAD, "partition is required: which one the group polled last is not known any more")
        try:
            await self._services.broker.leases.commit(topic.name, _name(consumer), offset, partition.index)
        except HeadraceError as error:
            raise refused(error) from error
        answer = {"topic": topic.name, "committed": offset, "replica_id": self._services.broker.node_id}
        return Json(_with_partition(answer, topic, partition, consumer))

    async def poll(self, poll: Poll, client: Client) -> Json:
        consumer = poll.consumer
        topic, last = await self._admit(consumer)
        if consumer.partition is None and len(topic.partitions) > 1:  # a group's
            after = last.index + 1
            partitions = [*topic.partitions[after:], *topic.partitions[:after]]
        else:
            partitions = [last]
        found = await _Polling(self, self._services, topic, partitions, poll).run(last, client)
        several = len(topic.partitions) > 1
        if several and consumer.group_id is not None:
            self._note_turn(topic, consumer.group_id, found.partition)
        answer = {
            "topic": topic.name,
            "records": encoded(found.records, found.partition.index if several else msgspec.UNSET),
            "next_offset": found.records[-1].offset + 1 if found.records else found.start,
            "committed": found.committed,
            "replica_id": self._services.broker.node_id,
        }
        return Held(_with_partition(answer, topic, found.partition, consumer), self._services.answers, found.held)

    async def renew(self, consumer: Consumer) -> None:
        """Holds the group's lease, if there is a group."""
        if consumer.group_id is None:
            return
        if consumer.consumer_id is None:
            raise Refused(BAD, NO_CONSUMER)
        try:
            await self._services.broker.leases.hold(consumer.topic, consumer.group_id, consumer.consumer_id)
        except LeaseHeld as error:
            raise Refused(CONFLICT, HELD) from error
        except HeadraceError as error:
            raise refused(error) from error

    # Inside

    async def _admit(self, consumer: Consumer) -> tuple[Topic, Partition]:
        """The topic and the partition that is meant, where nobody else holds the group's lease."""
        if consumer.group_id is not None and consumer.consumer_id is None:
            raise Refused(BAD, NO_CONSUMER)
        if len(consumer.group_id or "") > MAX_NAME or len(consumer.consumer_id or "") > MAX_NAME:
            raise Refused(BAD, f"group_id and consumer_id have at most {MAX_NAME} characters")
        topic = self._services.topic(consumer.topic)
        partition = self._partition(topic, consumer)
        await self.renew(consumer)
        return topic, partition

    def _partition(self, topic: Topic, consumer: Consumer) -> Partition:
        count = len(topic.partitions)
        index = consumer.partition
        if index is None and count == 1:
            index = 0
        if index is None and consumer.group_id is not None:
            index = self._turns.get(_turn(topic, consumer), 0) % count
        if index is None:
            raise Refused(BAD, f"partition is required: topic {topic.name!r} has {count} partitions")
        if not 0 <= index < count:
            raise Refused(MISSING, f"no partition {index}: topic {topic.name!r} has {count}")
        return topic.partitions[index]

    async def start(
        self, topic: Topic, partition: Partition, consumer: Consumer, from_offset: int | None
    ) -> tuple[int, int]:
        """What is committed, and where reading begins: never before the first record that is left."""
        try:
            committed = await self._services.broker.leases.committed(topic.name, _name(consumer), partition.index)
            await partition.opened()
        except HeadraceError as error:
            raise refused(error) from error
        start = committed + 1 if from_offset is None else from_offset
        return committed, max(0, start, partition.start_offset if partition.log is not None else 0)

    def _note_turn(self, topic: Topic, group: str, partition: Partition) -> None:
        place = topic.name, group
        self._turns.pop(place, None)
        self._turns[place] = partition.index
        if len(self._turns) > MAX_TURNS:
            del self._turns[next(iter(self._turns))]


class _Polling:
    """One poll: reads the partitions in their order until one has something, or the time is over. It holds memory only
    for what it has read: thousands may wait."""

    def __init__(
        self, positions: Positions, services: Services, topic: Topic, partitions: Sequence[Partition], poll: Poll
    ) -> None:
        self._positions, self._services = positions, services
        self._topic, self._partitions, self._poll = topic, partitions, poll
        self._places: dict[Partition, tuple[int, int]] = {}  # what is committed, and where reading begins

    async def run(self, last: Partition, client: Client) -> _Found:
        poll, loop = self._poll, asyncio.get_running_loop()
        until = loop.time() + poll.timeout_ms / 1000
        with client, self._services.waiting.watching(self._partitions, client) as watching:
            while True:
                for partition in self._partitions:
                    # The offset that a client gives is of the partition that it read last.
                    found = await self._look(partition, poll.from_offset if partition is last else None)
                    if found is not None:
                        return found
                left = until - loop.time()
                if left <= 0 or watching.is_stopping:
                    return _Found(last, *self._places[last], [], 0)
                await watching.wait(left if poll.consumer.group_id is None else min(left, RENEW_S))
                await self._positions.renew(poll.consumer)

    async def _look(self, partition: Partition, from_offset: int | None) -> _Found | None:
        place = self._places.get(partition)
        if place is None:
            place = await self._positions.start(self._topic, partition, self._poll.consumer, from_offset)
        committed, start = place
        if partition.log is not None:
            start = max(start, partition.start_offset)  # retention may have gone past it
        self._places[partition] = committed, start
        if partition.log is not None and start >= partition.last_stable_offset:
            return None
        memory = self._services.answers
        size = memory.share(self._services.limits.page_bytes)
        records: list[Record] = []
        try:
            await self._read(partition, start, size, records)
        except OffsetOutOfRange:
            pass  # it has gone meanwhile, or is yet to come
        except HeadraceError as error:
            records.clear()  # nobody gets them: what is held for them goes back
            raise refused(error) from error
        finally:
            if not records:
                memory.give_back(size)
        return _Found(partition, committed, start, records, size) if records else None

    async def _read(self, partition: Partition, at: int, size: int, records: list[Record]) -> None:
        """As many as are wanted, or as many as there are, or as many as there is room for."""
        wanted, left = self._poll.max_records, size
        while left > 0 and len(records) < wanted:
            missing = wanted - len(records)
            wish = min(left, likely_bytes(missing))
            page = await self._services.broker.reading.page(partition, at, max_records=missing, max_bytes=wish)
            page = fitting(page, left)
            records += page.records
            left -= sum(map(size_of, page.records), start=PAGE_COST)
            if page.next_offset <= at or page.next_offset >= page.end_offset:
                return
            at = page.next_offset


def _name(consumer: Consumer) -> str:
    """Whose position it is: the group's, else the consumer's, else that of all who do not say."""
    if consumer.group_id is not None:
        return f"group:{consumer.group_id}"
    return f"consumer:{consumer.consumer_id or ANYBODY}"


def _turn(topic: Topic, consumer: Consumer) -> tuple[str, str]:
    return topic.name, consumer.group_id or ""


def _with_partition(answer: dict[str, Any], topic: Topic, partition: Partition, consumer: Consumer) -> dict[str, Any]:
    if len(topic.partitions) > 1 or consumer.partition is not None:
        answer["partition"] = partition.index
    return answer
