"""The producer: records in, deliveries out. What is put is gathered into batches, one for each partition, and encoded
a batch at a time.

- `send` waits for the acknowledgement; `put` waits only for room in the buffer and gives a future.
- The first record after a pause leaves at once. While a batch is on its way the next ones wait for company, `linger`
  at the longest: a lone record is quick, and a stream goes in large batches.
- Every record that was put is delivered or fails with its cause, within `delivery_timeout`. Who does not look at
  the futures of `put` hears of failures from `flush` and `close`, which raise DeliveryFailed.
- Cancelling `send`, or a future of `put`, does not take the record back: it may be on its way.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from headrace.client.asking import Asking, checked_partition
from headrace.client.contents import Content as Content
from headrace.client.contents import GivenHeaders as GivenHeaders
from headrace.client.contents import raw_bytes, raw_headers
from headrace.client.lane import RECORD_BYTES, Batch, Lane, Promise, Waiter
from headrace.client.metadata import CREATION_GRACE_S
from headrace.client.producer_options import ACKS as ACKS
from headrace.client.producer_options import ProducerOptions as ProducerOptions
from headrace.client.sender import Sender
from headrace.client.values import Delivery
from headrace.errors import (
    BufferFull,
    ClientClosed,
    DeliveryFailed,
    HeadraceError,
    InvalidTimestamp,
    MessageTooLarge,
)
from headrace.records.header import HEADER_BYTES, MAX_BATCH_BYTES
from headrace.records.record import Headers, Record

CLOSE_AFTER_ERROR_S: Final = 10.0  # for what was put before an error that ends the producer's block
MAX_TIMESTAMP_MS: Final = (1 << 62) - 1  # so that no difference of two overflows
IN_TRANSACTIONS: Final = ("abort", "begin", "commit", "send_positions", "transaction")
_NEW = tuple.__new__


class TopicLanes:
    """A topic's lanes by partition, and the one that records without a key go to now."""

    __slots__ = ("lanes", "sticky")

    def __init__(self) -> None:
        self.lanes: list[Lane] = []
        self.sticky = 0

    def move_on(self) -> None:
        """Another partition, by chance, so that many producers spread."""
        count = len(self.lanes)
        if count > 1:
            self.sticky = (self.sticky + random.randrange(1, count)) % count


def missing(producer: object, name: str) -> AttributeError:
    """Whoever looks for transactions on a producer without any is told how to get one that has them."""
    hint = '; client.producer(transactional_id="name") makes one that has it' * (name in IN_TRANSACTIONS)
    return AttributeError(f"{type(producer).__name__} has no {name!r}{hint}", name=name, obj=producer)


class Producer:
    """Made by `client.producer(...)`; use it with `async with`, or `close` it."""

    def __init__(self, asking: Asking, options: ProducerOptions, *, owner: object = None) -> None:
        self._asking, self._options = asking, options
        self._owner = owner  # kept alive as long as its producer
        self._acks = ACKS[options.acks]
        self._is_idempotent = options.idempotent if options.idempotent is not None else self._acks == -1
        self._loop = asyncio.get_running_loop()
        name = options.transactional_id
        self._sender = Sender(asking, self._acks, options.request_timeout, self._settled, self._batch_failed, name)
        self._topics: dict[str, TopicLanes] = {}
        self._partition_for = options.partitioner
        self._buffer_bytes, self._buffered = options.buffer_bytes, 0
        self._record_bytes = min(options.buffer_bytes, MAX_BATCH_BYTES) - HEADER_BYTES
        self._room: deque[asyncio.Future[None]] = deque()
        self._failures = 0  # of records that nobody was told of
        self._failed_first: HeadraceError | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        try:
            await self.close(CLOSE_AFTER_ERROR_S)
        except DeliveryFailed as failure:
            error.add_note(str(failure))  # the first error is the one to tell; this one must not hide it

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            raise missing(self, name)

    # Records in

    async def send(
        self,
        topic: str,
        value: Content = None,
        key: Content = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Waits for the acknowledgement."""
        future = await self.put(topic, value, key, headers, partition, timestamp_ms)
        try:
            return await future
        except HeadraceError:
            self._failures -= 1  # told here, so `flush` need not
            raise

    async def put(
        self,
        topic: str,
        value: Content = None,
        key: Content = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[Delivery]:
        """Waits for room only. Values and keys that are text are sent as UTF-8; a value of None is a tombstone."""
        future: asyncio.Future[Delivery] = self._loop.create_future()
        await self.place(future, topic, value, key, headers, partition, timestamp_ms)
        return future

    async def place(
        self,
        promise: Promise,
        topic: str,
        value: Content,
        key: Content,
        headers: GivenHeaders | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> None:
        """As `put`, with a future of the caller's own kind. What cannot be sent is refused before the broker is asked
        for the topic, which would make it."""
        if value.__class__ is not bytes and value is not None:
            value = raw_bytes(value)
        size = RECORD_BYTES if value is None else RECORD_BYTES + len(value)
        if key is not None:
            if key.__class__ is not bytes:
                key = raw_bytes(key)
            size += len(key)
        given: Headers = ()
        if headers:
            given, more = raw_headers(headers)
            size += more
        if timestamp_ms is not None and not (isinstance(timestamp_ms, int) and -1 <= timestamp_ms <= MAX_TIMESTAMP_MS):
            raise InvalidTimestamp(f"{timestamp_ms!r} is not a time in whole milliseconds since 1970")
        if size > self._record_bytes:
            raise MessageTooLarge(
                f"a record of {size} bytes is over the {self._record_bytes} that this producer can hold (buffer_bytes)"
            )
        lanes = self._topics.get(topic)
        if lanes is None or self._is_closed:
            lanes = await self._learn(topic)
        if self._buffered + size > self._buffer_bytes or self._room:
            await self._wait_for_room(size)
        if partition is None:
            partition = self._partition_for(key, len(lanes.lanes))
            if partition is None:
                partition = self._sticky(lanes, size)
        if not 0 <= partition < len(lanes.lanes):
            await self._look_for(topic, lanes, partition)
        if self._is_closed:  # while this waited: nobody would send it any more
            raise ClientClosed("the producer is closed")
        lane = lanes.lanes[partition]
        batch = lane.open
        is_new = batch is None or batch.size + size > lane.batch_bytes
        if batch is None or is_new:
            batch = self._next_batch(lanes, lane)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        batch.records.append(_NEW(Record, (key, value, given, timestamp_ms, -1)))
        batch.promises.append(promise)
        batch.count += 1
        batch.size += size
        self._buffered += size
        if is_new:
            await asyncio.sleep(0)  # who puts in a loop must let batches leave

    async def flush(self) -> None:
        """Sends everything now and waits until all that was put before is acknowledged, or raises DeliveryFailed."""
        waiter = Waiter(self._loop.create_future())
        for lane in self._sender.lanes:
            for batch in lane.batches():
                batch.waiters.append(waiter)
                waiter.left += 1
            lane.close_open()
            self._sender.offer(lane)
        if waiter.left:
            await waiter.future
        self._raise_failures()

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (people look for that word)
        """Flushes first; what is not acknowledged within `timeout` seconds fails with ClientClosed."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            async with asyncio.timeout(timeout):
                await self.flush()
        except TimeoutError:
            self._abandon(f"the producer was closed after {timeout:g} s, and they were not acknowledged by then")
            self._raise_failures()
        finally:
            self._abandon("the producer was closed")
            await self._sender.stop()
            self._asking.connections.close()

    @property
    def buffered_bytes(self) -> int:
        """Of records that are not acknowledged yet."""
        return self._buffered

    def forked(self) -> None:
        """In the child of a fork the loop, the threads and the connections are the parent's."""
        self._is_closed = True

    # Inside

    async def _learn(self, topic: str) -> TopicLanes:
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        if not isinstance(topic, str):
            raise TypeError(f"a topic is named by text, not {type(topic).__name__}")
        found = await self._asking.metadata.topic(topic, create=True, grace_s=CREATION_GRACE_S)
        lanes = self._topics.get(topic)
        if lanes is None:
            lanes = TopicLanes()
            self._grow(lanes, topic, len(found.partitions))
            lanes.sticky = random.randrange(len(lanes.lanes))
            self._topics[topic] = lanes
        return lanes

    def _grow(self, lanes: TopicLanes, topic: str, count: int) -> None:
        lanes.lanes += [self._lane(topic, partition) for partition in range(len(lanes.lanes), count)]

    def _lane(self, topic: str, partition: int) -> Lane:
        options = self._options
        return Lane(topic, partition, options.batch_bytes, options.compression, self._is_idempotent)

    async def _look_for(self, topic: str, lanes: TopicLanes, partition: int) -> None:
        """A partition that we do not know of: it may have been added since."""
        await self._asking.metadata.refresh([topic])
        known = self._asking.metadata.known(topic)
        self._grow(lanes, topic, 0 if known is None else len(known.partitions))
        checked_partition(len(lanes.lanes), topic, partition)

    def _sticky(self, lanes: TopicLanes, size: int) -> int:
        """Stays until the batch there has left or is full."""
        batch = lanes.lanes[lanes.sticky].open
        if batch is None or batch.size + size > self._options.batch_bytes:
            lanes.move_on()
        return lanes.sticky

    def _next_batch(self, lanes: TopicLanes, lane: Lane) -> Batch:
        if lane.open is not None:
            lane.close_open()
        known = self._asking.metadata.known(lane.topic)
        if known is not None and len(known.partitions) > len(lanes.lanes):
            self._grow(lanes, lane.topic, len(known.partitions))
        now = self._loop.time()
        due = now + self._options.linger if lane.in_flight or lane.waiting else now
        batch = lane.new_batch(due, now + self._options.delivery_timeout)
        self._buffered += batch.size
        # Not now, as the batch is still empty; and the turns of others that are about to put come before it.
        if due > now:
            self._sender.offer_at(due, lane)
        self._sender.keep(lane)
        self._loop.call_soon(self._sender.offer, lane)
        return batch

    async def _wait_for_room(self, size: int) -> None:
        for lane in self._sender.lanes:  # nothing lingers while somebody waits for room
            lane.close_open()
            self._sender.offer(lane)
        try:
            async with asyncio.timeout(self._options.delivery_timeout):
                while self._buffered + size > self._buffer_bytes:
                    turn: asyncio.Future[None] = self._loop.create_future()
                    self._room.append(turn)
                    try:
                        await turn
                    finally:
                        if turn in self._room:
                            self._room.remove(turn)
        except TimeoutError:
            raise BufferFull(
                f"no room for {size} bytes within {self._options.delivery_timeout:g} s: the broker takes records"
                " slower than they are put, or not at all"
            ) from None
        finally:
            self._let_in()

    def _let_in(self) -> None:
        """The next who waits for room looks again."""
        if self._room and (self._buffered < self._buffer_bytes or self._is_closed):
            turn = self._room.popleft()
            if not turn.done():
                turn.set_result(None)

    def _settled(self, lane: Lane, batch: Batch, base_offset: int, append_time_ms: int) -> None:
        topic, partition, offset = lane.topic, lane.partition, base_offset
        times = batch.times if append_time_ms < 0 else [append_time_ms] * batch.count
        step = 0 if base_offset < 0 else 1
        for promise, timestamp_ms in zip(batch.promises, times, strict=True):
            if not promise.done():
                promise.set_result(_NEW(Delivery, (topic, partition, offset, timestamp_ms)))
            offset += step
        self._release(batch)

    def _batch_failed(self, lane: Lane, batch: Batch, error: HeadraceError) -> None:
        for promise in batch.promises:
            if not promise.done():
                promise.set_exception(error)
                promise.exception()  # seen: `flush` and `close` tell of it
        self.missed(error, batch.count)
        self._release(batch)

    def missed(self, error: HeadraceError, count: int = 1) -> None:
        """Records whose futures alone know that they failed: `flush` and `close` tell of them."""
        self._failures += count
        self._failed_first = self._failed_first or error

    def _release(self, batch: Batch) -> None:
        self._buffered -= batch.size
        for waiter in batch.waiters:
            waiter.settled()
        batch.promises = []
        self._let_in()

    def _abandon(self, why: str) -> None:
        for lane in self._sender.lanes:
            for batch in lane.clear():
                self._batch_failed(lane, batch, ClientClosed(f"topic {lane.topic!r} partition {lane.partition}: {why}"))
        while self._room:
            self._let_in()

    def _raise_failures(self) -> None:
        count, first = self._failures, self._failed_first
        self._failures, self._failed_first = 0, None
        if count > 0 and first is not None:
            raise DeliveryFailed(count, first) from first
