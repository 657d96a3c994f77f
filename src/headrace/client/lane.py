"""The way of one partition's records through a producer: a batch that is being filled, batches that wait, batches on
their way; and the sequence numbers by which the broker knows a batch that it has already. No socket, no clock.

Order. Batches leave in order, up to MAX_IN_FLIGHT at once when the broker can tell their order (idempotence), one at a
time when it cannot. When one comes back undelivered nothing more leaves until all that were on their way are back;
then they go again in their old order, one at a time until one has arrived.

Sequence numbers. The rule that keeps a record from being written twice: a batch whose fate is not known keeps its
producer id, epoch and sequence until the broker has said what became of it. Only when the first batch in line was
refused for certain do it and all behind it get new numbers, in a new epoch, which starts at 0. That is safe because the
broker takes nothing out of order: what stands behind a refused batch was not written either. It does take
anything from a producer that it does not know (yet, or any more), so until a batch was acknowledged lately only one is
on its way.
"""

from __future__ import annotations

import struct
from asyncio import Future
from collections import deque
from typing import Final, NamedTuple, Protocol

from headrace.client.values import Delivery
from headrace.records import codec, kernel
from headrace.records.codec import BatchOptions, Producer
from headrace.records.header import CRC_FROM, HEADER_BYTES, MAX_SEQUENCE, read_header
from headrace.records.record import Record

MAX_IN_FLIGHT: Final = 5  # of one partition: as many batches as a broker remembers of a producer
MAX_EPOCH: Final = (1 << 15) - 1
KNOWN_FOR_S: Final = 600.0  # a broker forgets a producer that was idle for long, ours and Kafka's after a day
RECORD_BYTES: Final = 32  # what a record's own numbers take at the most, rounded up
HEADER_PAIR_BYTES: Final = 10  # the same for one header

_CRC = struct.Struct(">I")
_PRODUCER = struct.Struct(">qhi")
_CRC_AT, _PRODUCER_AT = 17, 43


class Promise(Protocol):
    """A future, of asyncio's kind or of a thread's."""

    def done(self) -> bool: ...

    def set_result(self, result: Delivery, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...

    def exception(self) -> BaseException | None: ...


class Waiter:
    """Somebody who waits for batches to be settled: `left` of them."""

    __slots__ = ("future", "left")

    def __init__(self, future: Future[None]) -> None:
        self.future, self.left = future, 0

    def settled(self) -> None:
        self.left -= 1
        if not self.left and not self.future.done():
            self.future.set_result(None)


class Batch:
    __slots__ = (
        "attempts", "count", "deadline", "due", "encoded", "is_doubtful", "last_error", "order",
        "producer", "promises", "records", "size", "times", "waiters", "was_sent",
    )  # fmt: skip

    def __init__(self, order: tuple[int, ...], due: float, deadline: float) -> None:
        self.order, self.due, self.deadline = order, due, deadline
        self.records: list[Record] = []
        self.promises: list[Promise] = []
        self.times: list[int] = []
        self.size = HEADER_BYTES  # at the most, before compression; what it counts for in the producer's buffer
        self.count = 0
        self.encoded: bytearray | None = None
        self.producer = codec.NO_PRODUCER
        self.attempts = 0
        self.was_sent = False
        self.is_doubtful = False  # it was sent, and nobody knows whether it was written
        self.last_error: BaseException | None = None
        self.waiters: list[Waiter] = []


class Identity(NamedTuple):
    """Who a producer is to the broker."""

    id: int
    epoch: int


class Lane:
    __slots__ = (
        "_order", "_returned", "batch_bytes", "compression", "identity", "in_flight", "is_idempotent",
        "is_probing", "is_transactional", "last_ack", "lost_id", "must_renumber", "needs_identity", "next_sequence",
        "not_before", "open", "partition", "topic", "waiting",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int, batch_bytes: int, compression: str, is_idempotent: bool) -> None:
        self.topic, self.partition = topic, partition
        self.batch_bytes, self.compression, self.is_idempotent = batch_bytes, compression, is_idempotent
        self.is_transactional = False  # then its identity is given, and never changed here
        self.identity: Identity | None = None
        self.needs_identity = is_idempotent  # a producer id must be fetched before anything leaves
        self.lost_id = -1  # a producer id that must not be used again here
        self.next_sequence = 0
        self.open: Batch | None = None
        self.waiting: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.not_before = 0.0
        self.is_probing = False
        self.must_renumber = False
        self.last_ack = -KNOWN_FOR_S
        self._returned: list[Batch] = []
        self._order = 0

    # Records in

    def new_batch(self, due: float, deadline: float) -> Batch:
        self._order += 1
        self.open = batch = Batch((self._order,), due, deadline)
        return batch

    def close_open(self) -> None:
        if self.open is not None:
            self.waiting.append(self.open)
            self.open = None

    @property
    def is_empty(self) -> bool:
        return not (self.waiting or self.in_flight or self._returned) and self.open is None

    def batches(self) -> list[Batch]:
        """All that are not settled, in order."""
        found = sorted([*self.in_flight, *self._returned, *self.waiting], key=lambda batch: batch.order)
        return found if self.open is None else [*found, self.open]

    # Batches out

    def is_ready(self, now: float) -> bool:
        """Would `take` give a batch? (But for an identity that is missing.)"""
        if self._returned or now < self.not_before or len(self.in_flight) >= self._in_flight_limit(now):
            return False
        return bool(self.waiting) or (self.open is not None and self.open.due <= now)

    def take(self, now: float) -> Batch | None:
        """The next batch to send, encoded; it is on its way from now on."""
        if self.needs_identity or not self.is_ready(now):
            return None
        if not self.waiting:
            self.close_open()
        may_renumber = self.must_renumber and not self.in_flight and not self.waiting[0].is_doubtful
        if may_renumber and not self._renumber():
            return None
        batch = self.waiting[0]
        if batch.encoded is None:
            self._encode(batch)  # should it fail, the batch is still in line, and those who wait for it are told
        self.in_flight.append(self.waiting.popleft())
        batch.attempts += 1
        batch.was_sent = True
        return batch

    def _in_flight_limit(self, now: float) -> int:
        if not self.is_idempotent or self.is_probing or self.must_renumber or now - self.last_ack > KNOWN_FOR_S:
            return 1
        return MAX_IN_FLIGHT

    def _encode(self, batch: Batch) -> None:
        if self.identity is not None:
            batch.producer = Producer(self.identity.id, self.identity.epoch, self.next_sequence)
            self.next_sequence = (self.next_sequence + batch.count) & MAX_SEQUENCE
        batch.encoded = self._seal(batch)
        batch.times = [record.timestamp_ms for record in batch.records]
        batch.records = []  # their bytes are in the batch now

    def _seal(self, batch: Batch) -> bytearray:
        return codec.encode(batch.records, self._options(batch.producer))

    def _options(self, producer: Producer) -> BatchOptions:
        return BatchOptions(compression=self.compression, producer=producer, is_transactional=self.is_transactional)

    # What became of them

    def arrived(self, batch: Batch, now: float) -> None:
        self.in_flight.remove(batch)
        self.is_probing = bool(self._returned)
        self.last_ack = now
        self._regroup()

    def came_back(self, batch: Batch, *, is_doubtful: bool, not_before: float) -> None:
        """It is to be sent again. `is_doubtful`: it may have been written."""
        self.in_flight.remove(batch)
        batch.is_doubtful |= is_doubtful
        self._returned.append(batch)
        self.not_before = max(self.not_before, not_before)
        self._regroup()

    def out_of_order(self, batch: Batch, not_before: float, *, new_identity: bool = False) -> None:
        """The broker does not take its numbers, so it was not written. If one before it has come back too that is
        why; else its numbers are wrong for good."""
        if self.is_first(batch):
            batch.is_doubtful = False
            self.must_renumber = True
            if new_identity and self.identity is not None:
                self.lost_id, self.identity = self.identity.id, None
        self.came_back(batch, is_doubtful=False, not_before=not_before)

    def refused(self, batch: Batch) -> None:
        """It was not written and never will be; its numbers are missing now."""
        self.in_flight.remove(batch)
        self.must_renumber = self.is_idempotent and not self.is_transactional
        self._regroup()

    def split(self, batch: Batch) -> bool:
        """Too large for the broker: two halves with the same sequence numbers go in its place. False for one record."""
        if batch.count < 2 or batch.encoded is None:
            return False
        self.in_flight.remove(batch)
        self.batch_bytes = max(HEADER_BYTES + RECORD_BYTES, min(self.batch_bytes, batch.size) // 2)
        header = read_header(batch.encoded)
        body = codec.records_bytes(header, memoryview(batch.encoded)[HEADER_BYTES:])
        records = kernel.decode_records(body, batch.count, 0, header.base_timestamp, None)
        middle = batch.count // 2
        for index, (first, last) in enumerate(((0, middle), (middle, batch.count))):
            half = Batch((*batch.order, index), batch.due, batch.deadline)
            half.records, half.promises = records[first:last], batch.promises[first:last]
            half.count, half.attempts, half.was_sent = last - first, batch.attempts, True
            half.size = batch.size - batch.size // 2 if index else batch.size // 2
            half.times = batch.times[first:last]
            half.waiters = list(batch.waiters)
            producer = batch.producer
            if producer.sequence >= 0:
                producer = producer._replace(sequence=(producer.sequence + first) & MAX_SEQUENCE)
            half.producer = producer
            half.encoded = codec.encode(half.records, self._options(producer))
            half.records = []
            self._returned.append(half)
        for waiter in batch.waiters:
            waiter.left += 1
        self._regroup()
        return True

    def expire(self, now: float) -> list[Batch]:
        """Takes out those that wait and whose time is over."""
        over = [batch for batch in (*self.waiting, *self._returned) if batch.deadline <= now]
        if self.open is not None and self.open.deadline <= now:
            over.append(self.open)
            self.open = None
        if over:
            gone = set(map(id, over))
            self.waiting = deque(batch for batch in self.waiting if id(batch) not in gone)
            self._returned = [batch for batch in self._returned if id(batch) not in gone]
            # One in doubt may have been written: then those behind it are right as they are, and the broker will tell.
            if (
                self.is_idempotent
                and not self.is_transactional
                and any(batch.was_sent and not batch.is_doubtful for batch in over)
            ):
                self.must_renumber = True
            self._regroup()
        return over

    def note(self, error: BaseException) -> None:
        """Why nothing leaves, to be told should their time be over."""
        for batch in self.batches():
            batch.last_error = error

    def clear(self) -> list[Batch]:
        """Takes out all, wherever they are."""
        batches = self.batches()
        self.waiting.clear()
        self.in_flight.clear()
        self._returned.clear()
        self.open = None
        return batches

    def is_first(self, batch: Batch) -> bool:
        return all(batch.order <= other.order for other in (*self.in_flight, *self._returned))

    def _regroup(self) -> None:
        """When all are back, those that must go again stand in front, in order."""
        if self._returned and not self.in_flight:
            self._returned.sort(key=lambda batch: batch.order)
            self.waiting.extendleft(reversed(self._returned))
            self._returned = []
            self.is_probing = True

    def _renumber(self) -> bool:
        """False when a new producer id is needed first."""
        self.must_renumber = False
        if self.identity is not None and self.identity.epoch >= MAX_EPOCH:
            self.lost_id, self.identity = self.identity.id, None
        if self.identity is None:
            self.needs_identity = self.must_renumber = True
            return False
        self.identity = Identity(self.identity.id, self.identity.epoch + 1)
        self.begin_epoch()
        return True

    def begin(self, identity: Identity) -> None:
        """A producer id that was fetched; a batch that was numbered under another one gets new numbers."""
        self.identity, self.needs_identity = identity, False
        self.must_renumber = False
        self.begin_epoch()

    def begin_epoch(self) -> None:
        assert self.identity is not None and not self.in_flight
        self.next_sequence = 0
        for batch in self.waiting:
            if batch.encoded is None:
                break
            batch.producer = Producer(self.identity.id, self.identity.epoch, self.next_sequence)
            self.next_sequence = (self.next_sequence + batch.count) & MAX_SEQUENCE
            stamp_producer(batch.encoded, batch.producer)


def stamp_producer(encoded: bytearray, producer: Producer) -> None:
    """Other numbers for a batch that is encoded already."""
    _PRODUCER.pack_into(encoded, _PRODUCER_AT, *producer)
    with memoryview(encoded) as view:
        _CRC.pack_into(encoded, _CRC_AT, kernel.crc32c(view[CRC_FROM:]))
