"""The consumer: records of topics or single partitions, in order within each partition, as an iterator or in lists.

Offsets are the reader's own: there is no group, nothing is committed, and nobody has to be told that it is still
alive. An error (an offset that the log does not hold, damage, a topic that was deleted) is raised once, where the
reader stands; reading on tries again, `seek` goes elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final, Self

import msgspec

from headrace.client import positions
from headrace.client.asking import Asking, checked_partition
from headrace.client.fetcher import Fetcher
from headrace.client.metadata import MAX_AGE_S
from headrace.client.positions import END, START, Position, Positions
from headrace.client.reading import OUT_OF_RANGE, Reading
from headrace.client.values import Record, TopicPartition
from headrace.errors import ClientClosed, HeadraceError, UnknownTopic

ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}
Partitions = Iterable[int] | Mapping[str, Iterable[int]] | None


class ConsumerOptions(msgspec.Struct, frozen=True, kw_only=True):
    start: Positions = START
    """Where to begin: "start", "end", an offset, -N (the last N of each partition), a datetime or Time; or a mapping of
    (topic, partition) to these."""
    end: Positions | None = None
    """Where to stop, in the same words; None: nowhere, or with follow=False at what is the end when reading begins."""
    partitions: Partitions = None
    """Which of each topic's, or a mapping of topic to these; None: all, and those that are added later."""
    isolation: str = "read_uncommitted"
    follow: bool = True
    """Wait for records that are yet to come."""
    prefetch_bytes: int = 32 << 20
    """Read ahead at the most, of all partitions together, as they came over the wire."""
    max_wait: float = 0.5
    """Seconds that a broker may wait for records before it answers that there are none."""
    out_of_range: str = "error"
    """When the log does not hold the offset any more, or not yet: error, start or end."""

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATION:
            raise ValueError(f"isolation is one of {', '.join(ISOLATION)}, not {self.isolation!r}")
        if self.out_of_range not in OUT_OF_RANGE:
            raise ValueError(f"out_of_range is one of {', '.join(OUT_OF_RANGE)}, not {self.out_of_range!r}")
        if self.prefetch_bytes <= 0 or self.max_wait < 0:
            raise ValueError("prefetch_bytes is more than 0, and max_wait at least 0 seconds")


class Consumer:
    """Made by `client.consumer(...)`; use it with `async with`, or `start` and `close` it."""

    def __init__(
        self, asking: Asking, topics: Iterable[str], options: ConsumerOptions, *, owner: object = None
    ) -> None:
        self._asking, self._options, self._topics = asking, options, tuple(dict.fromkeys(topics))
        self._owner = owner  # kept alive as long as its consumer
        self._level = ISOLATION[options.isolation]
        self._arrival = asyncio.Event()
        self._fetcher = Fetcher(
            asking, self._level, options.prefetch_bytes, options.max_wait, options.out_of_range, self._arrival.set
        )
        self._readings = self._fetcher.readings
        self._now: Reading | None = None  # whose records are being handed out
        self._records: list[Record] = []  # of one batch
        self._at = 0  # which of them is next
        self._growing: asyncio.Task[None] | None = None
        self._is_started = self._is_closed = False
        self._starting = asyncio.Lock()

    async def start(self) -> Self:
        """Finds the topics and where to begin. `async with` and the first read do this by themselves."""
        async with self._starting:
            if self._is_closed:
                raise ClientClosed("the consumer is closed")
            if not self._is_started:
                await self._start()
                self._is_started = True  # and not before: a start that is cut short is made again
        return self

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self._is_closed = True
        if self._growing is not None:
            self._growing.cancel()
        await self._fetcher.stop()
        self._asking.connections.close()
        self._arrival.set()

    # Records

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        at = self._at
        if at >= len(self._records):
            if not await self._more():
                raise StopAsyncIteration
            at = self._at
        self._at = at + 1
        return self._records[at]

    async def take(self, max_records: int = 500, timeout: float | None = 1.0) -> list[Record]:  # noqa: ASYNC109
        """What is there, at most `max_records`; waits for the first, `timeout` seconds at the longest (None: as
        long as it takes). An empty list: none came, or everything was read."""
        if max_records < 1:
            raise ValueError(f"at least one record is taken, not {max_records}")
        taken = self._some(max_records)
        if not taken:
            try:
                async with asyncio.timeout(timeout):
                    while not taken and await self._more():
                        taken = self._some(max_records)
            except TimeoutError:
                self._fill_at_last()
        while len(taken) < max_records and self._fill():
            taken += self._some(max_records - len(taken))
        return taken

    @property
    def is_done(self) -> bool:
        """Has everything been read up to where reading was to stop? Never, when it follows."""
        return self._is_started and not self._is_left() and all(one.is_done for one in self._readings.values())

    @property
    def buffered_bytes(self) -> int:
        """Read ahead and not handed out yet."""
        return sum(reading.buffered for reading in self._readings.values())

    # Where the reader stands

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return tuple(self._readings)

    async def assign(
        self, where: Iterable[tuple[str, int]] | Mapping[TopicPartition, Position] | Mapping[tuple[str, int], Position]
    ) -> None:
        """Reads these partitions and no others, from the position beside each, else from where `start` says."""
        starts = dict(where) if isinstance(where, Mapping) else {}
        wanted = [TopicPartition(*one) for one in where]
        for topic, partition in wanted:
            known = await self._asking.metadata.topic(topic)
            checked_partition(len(known.partitions), topic, partition)
        async with self._starting:
            readings = await self._found(wanted, {TopicPartition(*one): at for one, at in starts.items()})
            self._is_started = True
            self._drop_records()
            self._readings.clear()
            self._begin(readings)

    async def seek(self, topic: str, partition: int, to: Position) -> None:
        reading = self._reading(topic, partition)
        offsets = await positions.resolve(self._asking, {reading.where: to}, self._level)
        if self._now is reading:
            self._drop_records()
        reading.move(offsets[reading.where])
        self._fetcher.bind(reading)
        self._fetcher.route()

    def position(self, topic: str, partition: int) -> int:
        """The offset of the next record that will be handed out."""
        reading = self._reading(topic, partition)
        return self._records[self._at].offset if self._now is reading and self._is_left() else reading.offset

    def pause(self, topic: str, partition: int) -> None:
        """No records of it until `resume`; what was read ahead is dropped, so that it holds no room."""
        reading = self._reading(topic, partition)
        offset, epoch = self.position(topic, partition), reading.fetch_epoch
        if self._now is reading:
            self._drop_records()
        reading.move(offset)
        reading.is_paused, reading.fetch_epoch = True, epoch

    def resume(self, topic: str, partition: int) -> None:
        self._reading(topic, partition).is_paused = False
        self._fetcher.wake()

    def forked(self) -> None:
        """In the child of a fork the loop, the threads and the connections are the parent's."""
        self._is_closed = True
        self._drop_records()

    # Inside

    def _some(self, most: int) -> list[Record]:
        taken = self._records[self._at : self._at + most]
        self._at += len(taken)
        return taken

    async def _more(self) -> bool:
        """Waits until there are records to hand out; False when there will be none."""
        if not self._is_started:
            await self.start()
        await asyncio.sleep(0)  # who never waits must let the next answers in
        if self._arrival.is_set():
            self._arrival.clear()
            self._raise_error()
        while not self._fill():
            if self._is_closed:
                raise ClientClosed("the consumer is closed")
            self._raise_error()
            if self._is_over():
                return False
            self._arrival.clear()
            await self._wait()
        return True

    def _fill_at_last(self) -> bool:
        """The time is over: what has come is handed out all the same, and what went wrong is told."""
        if self._fill():
            return True
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        self._raise_error()
        return False

    def _is_over(self) -> bool:
        if not self._readings:
            raise UnknownTopic("nothing to read: name a topic, or assign partitions")
        return all(reading.is_done for reading in self._readings.values())

    async def _wait(self) -> None:
        await self._arrival.wait()

    def _fill(self) -> bool:
        """Makes the next batch's records those to hand out, partition after partition."""
        if self._is_left():
            return True
        in_line = self._fetcher.in_line
        while in_line:
            reading = in_line.popleft()
            records = self._next_of(reading)
            reading.is_in_line = bool(reading.chunks)
            if reading.is_in_line:
                in_line.append(reading)  # behind the others, so that no partition starves another
            else:
                self._fetcher.wake()
            if records:
                self._now, self._records, self._at = reading, records, 0
                return True
        return False

    def _next_of(self, reading: Reading) -> list[Record]:
        if not reading.chunks or self._readings.get(reading.where) is not reading:
            reading.chunks.clear()
            return []
        first = reading.offset
        try:
            return reading.next()
        except HeadraceError as error:
            reading.move(first)  # it stays there: reading on tries again, `seek` goes past it
            reading.error = error
            return []

    def _is_left(self) -> bool:
        return self._at < len(self._records)

    def _drop_records(self) -> None:
        self._now, self._records, self._at = None, [], 0

    def _raise_error(self) -> None:
        if self._fetcher.fault is not None:
            raise ClientClosed(f"the consumer failed: {self._fetcher.fault!r}") from self._fetcher.fault
        for reading in self._readings.values():
            if reading.error is not None and not reading.chunks:
                error, reading.error = reading.error, None
                self._fetcher.route()  # reading on tries again, also to find a topic that was not there
                raise error

    def _reading(self, topic: str, partition: int) -> Reading:
        reading = self._readings.get(TopicPartition(topic, partition))
        if reading is None:
            raise UnknownTopic(f"topic {topic!r} partition {partition} is not read by this consumer")
        return reading

    async def _start(self) -> None:
        wanted = [where for topic in self._topics for where in await self._partitions_of(topic)]
        self._begin(await self._found(wanted))
        if self._options.partitions is None and self._options.follow and self._topics:
            self._growing = asyncio.get_running_loop().create_task(self._grow())

    async def _partitions_of(self, topic: str) -> list[TopicPartition]:
        known = await self._asking.metadata.topic(topic)
        chosen = self._options.partitions
        if isinstance(chosen, Mapping):
            chosen = chosen.get(topic)
        found = range(len(known.partitions)) if chosen is None else list(dict.fromkeys(chosen))
        for partition in found:
            checked_partition(len(known.partitions), topic, partition)
        return [TopicPartition(topic, partition) for partition in found]

    async def _found(
        self, wanted: list[TopicPartition], starts: Mapping[TopicPartition, Position] | None = None
    ) -> list[Reading]:
        """Where to begin, and where to end."""
        options, asked, starts = self._options, {}, starts or {}
        for where in wanted:
            asked[where] = starts.get(where, positions.position_of(options.start, where, START))
        begins = await positions.resolve(self._asking, asked, self._level)
        ends: dict[TopicPartition, int] = {}
        end = options.end if options.end is not None else None if options.follow else END
        if end is not None:
            stops = {where: positions.position_of(end, where, END) for where in wanted}
            ends = await positions.resolve(self._asking, stops, self._level)
        return [Reading(where, begins[where], ends.get(where)) for where in wanted]

    def _begin(self, readings: Iterable[Reading]) -> None:
        self._readings.update({reading.where: reading for reading in readings})
        self._fetcher.route()

    async def _grow(self) -> None:
        """Partitions that were added since are read from their beginning."""
        while True:
            await asyncio.sleep(MAX_AGE_S)
            try:
                await self._asking.metadata.refresh(self._topics)
                for topic in self._topics:
                    new = [where for where in await self._partitions_of(topic) if where not in self._readings]
                    if new:
                        self._begin(await self._found(new, dict.fromkeys(new, START)))
            except HeadraceError:
                continue  # nobody could be asked: later
