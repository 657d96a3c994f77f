"""Tables in, acknowledged batches out. What is put is encoded at once; `flush` waits until all of it is acknowledged,
or raises DeliveryFailed with the first cause.

Sending, repeating, order and sequence numbers are the producer's (`sender`, `lane`). As a member of a transaction
(`sinks`) it writes with the identity that it was given, and leaves the transaction open: whoever opened it decides.
After a failure such a producer takes nothing more.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from headrace.client.asking import Asking
from headrace.client.column_batches import ColumnLane, Piece, pieces
from headrace.client.lane import Batch, Identity, Lane, Waiter
from headrace.client.metadata import CREATION_GRACE_S
from headrace.client.producer import ACKS, ProducerOptions
from headrace.client.sender import Sender
from headrace.client.sinks import Member
from headrace.errors import BufferFull, ClientClosed, DeliveryFailed, HeadraceError

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnProducer:
    """Made by `client.column_producer(...)`; use it with `async with`, or `close` it."""

    def __init__(
        self, asking: Asking, options: ProducerOptions, member: Member | None = None, *, owner: object = None
    ) -> None:
        acks = ACKS[options.acks]
        if member is not None and acks != ACKS["all"]:
            raise ValueError('a transaction is written with acks="all"')
        self._asking, self._options, self._member = asking, options, member
        self._owner = owner  # kept alive as long as its producer
        self._is_idempotent = options.idempotent if options.idempotent is not None else acks == ACKS["all"]
        self._loop = asyncio.get_running_loop()
        name = member.transactional_id if member is not None else None
        self._sender = Sender(asking, acks, options.request_timeout, self._settled, self._failed, name)
        self._lanes: dict[tuple[str, int], ColumnLane] = {}
        self._spare = random.randrange(1 << 16)  # which partition rows without a key go to, counted on
        self._buffered = 0
        self._room: deque[asyncio.Future[None]] = deque()
        self._failures, self._first_failure = 0, None
        self._is_closed = False

    _first_failure: HeadraceError | None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.flush()
        finally:
            await self.close()

    async def put(self, topic: str, table: pa.RecordBatch | pa.Table) -> int:
        """Waits for room only. How many rows were put; where each goes is in `column_batches`."""
        rows = 0
        for part in table.to_batches() if hasattr(table, "to_batches") else [table]:
            await self.place(topic, self.prepare(part, *await self.aim(topic)))
            rows += part.num_rows
        return rows

    async def aim(self, topic: str) -> tuple[int, int]:
        """How many partitions the topic has, and which of them rows without a key go to now."""
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        known = await self._asking.metadata.topic(topic, create=True, grace_s=CREATION_GRACE_S)
        self._spare += 1
        return len(known.partitions), self._spare % len(known.partitions)

    def prepare(self, table: pa.RecordBatch, count: int, spare: int) -> list[Piece]:
        """Encodes; the part of `put` that takes time, and may run on any thread."""
        return list(pieces(table, count, spare, self._options.batch_bytes, time.time_ns() // 1_000_000))

    async def place(self, topic: str, prepared: Sequence[Piece]) -> None:
        for piece in prepared:
            await self._wait_for_room(len(piece.body))
            lane = self._lane(topic, piece.partition)
            batch = lane.add(piece, self._loop.time() + self._options.delivery_timeout)
            self._buffered += batch.size
            self._sender.keep(lane)
            self._sender.offer(lane)
        await asyncio.sleep(0)

    async def flush(self) -> None:
        """Waits until all that was put before is acknowledged, or raises DeliveryFailed."""
        waiter = Waiter(self._loop.create_future())
        for lane in self._sender.lanes:
            for batch in lane.batches():
                batch.waiters.append(waiter)
                waiter.left += 1
        if waiter.left:
            await waiter.future
        self._raise_failures()

    async def close(self) -> None:
        """What is not acknowledged yet is given up: `flush` first."""
        if not self._is_closed:
            self._is_closed = True
            await self._stop()

    async def finish(self) -> None:
        """What its client does at its own end: it flushes first, unless a transaction decides about the rows."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._member is None:
                await self.flush()
        finally:
            await self._stop()

    def forked(self) -> None:
        """In the child of a fork the loop, the threads and the connections are the parent's."""
        self._is_closed = True

    # Inside

    async def _stop(self) -> None:
        self._give_up(ClientClosed("the producer was closed"))
        await self._sender.stop()
        self._asking.connections.close()

    def _lane(self, topic: str, partition: int) -> ColumnLane:
        lane = self._lanes.get((topic, partition))
        if lane is None:
            options = self._options
            lane = ColumnLane(topic, partition, options.batch_bytes, options.compression, self._is_idempotent)
            if self._member is not None:
                lane.is_transactional = True
                lane.begin(Identity(self._member.producer_id, self._member.epoch))
            self._lanes[topic, partition] = lane
        return lane

    async def _wait_for_room(self, size: int) -> None:
        self._check()
        try:
            async with asyncio.timeout(self._options.delivery_timeout):
                while self._buffered and self._buffered + size > self._options.buffer_bytes:
                    turn: asyncio.Future[None] = self._loop.create_future()
                    self._room.append(turn)
                    await turn
                    self._check()
        except TimeoutError:
            raise BufferFull(
                f"no room for {size} bytes within {self._options.delivery_timeout:g} s: the broker takes records"
                " slower than they are put, or not at all"
            ) from None

    def _check(self) -> None:
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        if self._member is not None and self._first_failure is not None:
            self._raise_failures()

    def _settled(self, lane: Lane, batch: Batch, base_offset: int, append_time_ms: int) -> None:
        self._release(batch)

    def _failed(self, lane: Lane, batch: Batch, error: HeadraceError) -> None:
        self._failures += batch.count
        is_first, self._first_failure = self._first_failure is None, self._first_failure or error
        self._release(batch)
        if is_first and self._member is not None:
            # A transaction that lacks a batch must not be committed: what waits is not sent any more. What is on its
            # way has its own end, for its answer is still to come.
            for other in self._sender.lanes:
                self._sender.give_up(other, error)

    def _give_up(self, error: HeadraceError) -> None:
        for lane in self._sender.lanes:
            for batch in lane.clear():
                self._failed(lane, batch, error)

    def _release(self, batch: Batch) -> None:
        self._buffered -= batch.size
        for waiter in batch.waiters:
            waiter.settled()
        while self._room:
            turn = self._room.popleft()
            if not turn.done():
                turn.set_result(None)

    def _raise_failures(self) -> None:
        count, first = self._failures, self._first_failure
        if count and first is not None:
            if self._member is None:
                self._failures, self._first_failure = 0, None
            raise DeliveryFailed(count, first) from first
