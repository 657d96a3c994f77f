"""Reads ahead: for each node one Fetch at a time, for the partitions that it leads and that have room.

What is fetched and not taken yet is bounded by `prefetch_bytes` for all partitions together; a partition that is full
is left out of the next Fetch while the others go on. Nobody needs to be asked whether a slow reader is still there,
so a slow reader breaks nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Final
from uuid import UUID

from headrace.client import backoff, positions
from headrace.client.apis import FETCH
from headrace.client.asking import Asking
from headrace.client.connection import Connection
from headrace.client.fetched import Chunk
from headrace.client.reading import Reading
from headrace.client.refusals import MISDIRECTED, error_of
from headrace.client.values import TopicPartition
from headrace.errors import (
    ClientClosed,
    ConnectionFailed,
    CorruptBatch,
    HeadraceError,
    RequestTimedOut,
    UnknownTopic,
    UnknownTopicId,
)
from headrace.wire.kafka.codes_client import RETRIABLE
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.fetch import BY_ID, FetchedPartition, FetchPartition, FetchRequest, FetchResponse, FetchTopic

PARTITION_BYTES: Final = 4 << 20  # of one partition in one answer: a few large batches
MIN_ROOM_BYTES: Final = 64 << 10  # less room than this is not worth a question
UNKNOWN_TOPIC_S: Final = 5.0  # a topic that is gone for this long is not coming back


class Fetcher:
    def __init__(
        self,
        asking: Asking,
        isolation_level: int,
        prefetch_bytes: int,
        max_wait: float,
        out_of_range: str,
        arrived: Callable[[], None],
    ) -> None:
        self.readings: dict[TopicPartition, Reading] = {}
        self.in_line: deque[Reading] = deque()  # that have something, in the order in which it is their turn
        self._asking, self._metadata = asking, asking.metadata
        self._isolation_level, self._prefetch_bytes = isolation_level, prefetch_bytes
        self._max_wait, self._out_of_range = max_wait, out_of_range
        self._arrived = arrived  # records or errors are there
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._wakes: dict[int, asyncio.Event] = {}
        self._asked_bytes: dict[int, int] = {}
        self._seeking: asyncio.Task[None] | None = None
        self._reached: set[int] = set()  # nodes that once answered
        self._began = self._loop.time()
        self.fault: BaseException | None = None

    def wake(self) -> None:
        """There is room."""
        for wake in self._wakes.values():
            wake.set()

    def route(self) -> None:
        """There are other partitions to read, or other leaders."""
        homeless = False
        for reading in self.readings.values():
            if reading.topic_id is None:
                self.bind(reading)
            node = self._metadata.leader(*reading.where)
            if node is None:
                homeless = True
            elif node.id not in self._tasks:
                self._wakes[node.id] = asyncio.Event()
                self._tasks[node.id] = self._start(self._run(node.id))
        self.wake()
        if homeless and self._seeking is None:
            self._seeking = self._start(self._seek_leaders())

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A fault of ours must not leave a reader waiting for ever."""
        if not task.cancelled() and (fault := task.exception()) is not None and not isinstance(fault, ClientClosed):
            self.fault = fault
            self._arrived()

    async def stop(self) -> None:
        tasks = [*self._tasks.values(), *([self._seeking] if self._seeking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, node_id: int) -> None:
        wake = self._wakes[node_id]
        while True:
            wake.clear()
            room = self._prefetch_bytes - sum(reading.buffered for reading in self.readings.values())
            room -= sum(self._asked_bytes.values())
            share = max(1, self._prefetch_bytes // len(self._tasks))  # one that has nothing leaves room for the others
            room = min(room, share)
            wanted = self._wanted(node_id) if room >= min(MIN_ROOM_BYTES, share) else []
            if not wanted:
                soonest = self._soonest(node_id)
                try:
                    async with asyncio.timeout_at(soonest):
                        await wake.wait()
                except TimeoutError:
                    pass
                continue
            for reading in wanted:
                reading.is_asked = True
            self._asked_bytes[node_id] = room
            try:
                await self._fetch(node_id, wanted, room)
            finally:
                self._asked_bytes.pop(node_id, None)
                for reading in wanted:
                    reading.is_asked = False
                self.wake()  # what was not used of its room is there for the others

    def _wanted(self, node_id: int) -> list[Reading]:
        now, share = self._loop.time(), max(MIN_ROOM_BYTES, self._prefetch_bytes // max(1, len(self.readings)))
        found = []
        for reading in self.readings.values():
            node = self._metadata.leader(*reading.where)
            if node is None or node.id != node_id or not reading.wants(share, now):
                continue
            if reading.topic_id is None:
                self.bind(reading)
            elif self._is_of_another_topic(reading):
                self._made_again(reading)
                self._arrived()
            if reading.error is None:
                found.append(reading)
        return found

    def _soonest(self, node_id: int) -> float | None:
        """When the first partition that was refused may be asked for again."""
        now = self._loop.time()
        times = [
            reading.not_before
            for reading in self.readings.values()
            if reading.not_before > now and not reading.is_asked
        ]
        return min(times, default=None)

    async def _fetch(self, node_id: int, wanted: list[Reading], room: int) -> None:
        generations = [reading.generation for reading in wanted]
        try:
            node = self._metadata.nodes.get(node_id)
            if node is None:
                raise ConnectionFailed(f"node {node_id} left the cluster")
            connection = await self._asking.connections.to(node)
            response = await self._ask(connection, wanted, room)
            self._reached.add(node_id)
        except (ConnectionFailed, RequestTimedOut) as error:
            # Who was there comes back; who never answered may be nowhere, as one with a wrong advertised address.
            is_nowhere = node_id not in self._reached and self._loop.time() - self._began > self._asking.timeout
            for reading in wanted:
                self._back_off(reading)
                reading.error = error if is_nowhere else None
            await self._refresh({reading.where.topic for reading in wanted})
            return
        except HeadraceError as error:
            for reading in wanted:
                reading.error = error
            self._arrived()
            return
        found = {
            (topic.topic_id if topic.topic_id is not None else topic.name, one.partition): one
            for topic in response.topics
            for one in topic.partitions
        }
        stale: set[str] = set()
        for reading, generation in zip(wanted, generations, strict=True):
            topic, partition = reading.where
            fetched = found.get((topic, partition)) or found.get((reading.topic_id, partition))
            if reading.generation != generation or self.readings.get(reading.where) is not reading:
                continue
            code = response.error or (fetched.error if fetched is not None else 0)
            if fetched is not None and not code:
                self._take(reading, fetched)
            elif code == Code.OFFSET_OUT_OF_RANGE:
                await self._reset(reading, generation)
            elif code:
                self._refused(reading, code, fetched, response, stale)
        self._arrived()
        if stale:
            await self._refresh(stale)

    async def _ask(self, connection: Connection, wanted: Iterable[Reading], room: int) -> FetchResponse:
        by_topic: dict[tuple[str, UUID | None], list[FetchPartition]] = {}
        part = min(PARTITION_BYTES, room)
        for reading in wanted:
            topic, partition = reading.where
            epoch = self._metadata.leader_epoch(topic, partition)
            by_topic.setdefault((topic, reading.topic_id), []).append(
                FetchPartition(partition, epoch, reading.fetch_offset, _epoch_of(reading), -1, part)
            )
        topics = [FetchTopic(*topic, partitions) for topic, partitions in by_topic.items()]
        newest = None if all(topic.topic_id for topic in topics) else BY_ID - 1
        request = FetchRequest(
            max_wait_ms=int(self._max_wait * 1000),
            min_bytes=1,
            max_bytes=room,
            isolation_level=self._isolation_level,
            topics=topics,
        )
        return await connection.ask(FETCH, request, self._asking.timeout + self._max_wait, newest)

    def _take(self, reading: Reading, fetched: FetchedPartition) -> None:
        if fetched.diverging is not None:
            self._cut(reading, fetched.diverging[1])
            return
        pieces = fetched.pieces or ()
        if not pieces:
            reading.failures = 0
            return
        aborted = (fetched.aborted or ()) if self._isolation_level else None
        try:
            reading.add(Chunk(pieces[0], reading.fetch_offset, aborted))
            if not reading.is_in_line:
                reading.is_in_line = True
                self.in_line.append(reading)
        except CorruptBatch as error:
            topic, partition = reading.where
            reading.error = CorruptBatch(f"topic {topic!r} partition {partition} at {reading.fetch_offset}: {error}")

    def _cut(self, reading: Reading, end_offset: int) -> None:
        """The log was cut below where we stand and has gone on: what we read there is gone, and other records are."""
        offset = min(end_offset, reading.fetch_offset)
        if self._out_of_range == "error":
            reading.error = reading.cut_at(offset)
        else:
            reading.move(offset)

    async def _reset(self, reading: Reading, generation: int) -> None:
        topic, partition = reading.where
        try:
            ends = await positions.ends(self._asking, topic, partition, self._isolation_level)
        except HeadraceError as error:
            reading.error = error
            return
        if reading.generation != generation:
            return
        if reading.chunks:  # not before what was fetched is read
            self._back_off(reading)
        elif self._out_of_range == "error":
            reading.error = reading.out_of_range(*ends)
            reading.not_before = self._loop.time() + backoff.FIRST_S
        else:
            reading.move(ends[0] if self._out_of_range == "start" else ends[1])

    def _refused(
        self, reading: Reading, code: int, fetched: FetchedPartition | None, response: FetchResponse, stale: set[str]
    ) -> None:
        topic, partition = reading.where
        if code in MISDIRECTED:
            leader = None if fetched is None else fetched.leader
            if self._metadata.learn(topic, partition, leader, response.endpoints):
                self.route()
            else:
                stale.add(topic)
            self._back_off(reading)
        elif code in RETRIABLE and code != Code.CORRUPT_MESSAGE:
            self._back_off(reading)
        else:
            where = f"topic {topic!r} partition {partition} at {reading.fetch_offset}"
            reading.error = error_of(code, where)

    def _back_off(self, reading: Reading) -> None:
        reading.failures += 1
        reading.not_before = self._loop.time() + backoff.wait_s(reading.failures)

    # Leaders

    async def _refresh(self, topics: set[str]) -> None:
        try:
            await self._metadata.refresh(topics)
        except HeadraceError:
            await asyncio.sleep(backoff.MOST_S)  # nobody can be reached: reading goes on when somebody can
        now = self._loop.time()
        for reading in self.readings.values():
            topic = reading.where.topic
            known = self._metadata.known(topic)
            if topic not in topics:
                continue
            if known is None:
                reading.lost_since = reading.lost_since or now
                if now - reading.lost_since > UNKNOWN_TOPIC_S:
                    reading.error = UnknownTopic(f"topic {topic!r} is not there any more")
                continue
            reading.lost_since = None
            if self._is_of_another_topic(reading):
                self._made_again(reading)
        self.route()
        self._arrived()

    def bind(self, reading: Reading) -> None:
        """Its offset was looked up in the topic that has the name now, and means nothing in any other."""
        known = self._metadata.known(reading.where.topic)
        reading.topic_id = None if known is None else known.topic_id

    def _is_of_another_topic(self, reading: Reading) -> bool:
        known = self._metadata.known(reading.where.topic)
        if known is None or known.topic_id is None or reading.topic_id is None:
            return False
        return reading.topic_id != known.topic_id

    def _made_again(self, reading: Reading) -> None:
        if self._out_of_range == "error":
            topic = reading.where.topic
            reading.error = UnknownTopicId(
                f"topic {topic!r} was deleted and made again; seek, or begin anew with another consumer"
            )
        else:
            reading.move(0)
            reading.began = 0
            self.bind(reading)

    async def _seek_leaders(self) -> None:
        looks = 0
        while True:
            lost = {
                where.topic
                for where, reading in self.readings.items()
                if self._metadata.leader(*where) is None and reading.error is None
            }
            if not lost:
                break
            looks += 1
            await asyncio.sleep(backoff.wait_s(looks))
            await self._refresh(lost)
        self._seeking = None


def _epoch_of(reading: Reading) -> int:
    """Of the last batch before `fetch_offset`."""
    return reading.fetch_epoch if not reading.chunks else -1
