"""From input to acknowledged records: how pieces become records, at which pace they go, and what is kept of each.

Deliveries are counted as they come, by partition, so nothing grows with the length of the input. The first that fails
ends the reading.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from headrace.cli.options import Options
from headrace.cli.output import done, json_text
from headrace.cli.parsing import counted, show_time
from headrace.cli.reading import pieces, standard_input, whole
from headrace.cli.record_values import Headers, Sending, sending_of
from headrace.cli.text import raw

if TYPE_CHECKING:
    from headrace.aio import Producer
    from headrace.client.values import Delivery

COUNT_S = 0.05  # how late an arrival may be told
MAX_UNDER_WAY = 100_000  # records; the producer bounds their bytes
LEAST_SLEEP_S = 0.002  # a shorter nap costs more than it is worth
LINES, JSONL, WHOLE = "lines", "jsonl", "whole"


class Shape(msgspec.Struct, frozen=True):
    """How input becomes records, and what a record gets that does not bring its own."""

    form: str = LINES
    delimiter: bytes = b"\n"
    key_delimiter: bytes | None = None
    empty_is_null: bool = False
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    def record(self, piece: bytes, number: int) -> Sending | None:
        """None: an empty line of JSONL."""
        if self.form == JSONL:
            return self._with_ours(sending_of(piece, number)) if piece.strip() else None
        key, value = self.key, piece
        if self.key_delimiter is not None:
            before, found, after = piece.partition(self.key_delimiter)
            key, value = (before, after) if found else (key, piece)
        nulled = None if self.empty_is_null and not value else value
        return Sending(nulled, key, self.headers, self.partition, self.timestamp_ms)

    def _with_ours(self, made: Sending) -> Sending:
        return Sending(
            made.value,
            made.key if made.key is not None else self.key,
            made.headers + self.headers,
            self.partition if self.partition is not None else made.partition,
            self.timestamp_ms if self.timestamp_ms is not None else made.timestamp_ms,
        )


async def from_values(shape: Shape, values: Sequence[str]) -> AsyncIterator[Iterator[Sending]]:
    yield _records(shape, [raw(value) for value in values], 1)


async def from_files(shape: Shape, names: Sequence[str]) -> AsyncIterator[Iterator[Sending]]:
    """As many records at once as a read brought."""
    for name in names:
        with _opened(name) as file:
            if shape.form == WHOLE:
                yield _records(shape, [await whole(file)], 1)
                continue
            number = 1
            async for several in pieces(file, shape.delimiter):
                yield _records(shape, several, number)
                number += len(several)


def _opened(name: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(standard_input()) if name == "-" else open(name, "rb")


def _records(shape: Shape, found: Sequence[bytes], number: int) -> Iterator[Sending]:
    """One by one, so that those before a line that makes no sense are sent."""
    for line, piece in enumerate(found, number):
        if (record := shape.record(piece, line)) is not None:
            yield record


class Pace:
    """So many records in a second; time that the input took is not made up for in a burst."""

    def __init__(self, per_second: float) -> None:
        self._step_s = 1 / per_second
        self._due = time.monotonic()

    async def wait(self) -> None:
        now = time.monotonic()
        self._due = max(self._due, now - LEAST_SLEEP_S)
        if self._due - now > LEAST_SLEEP_S:
            await asyncio.sleep(self._due - now)
        self._due += self._step_s


class Delivered(msgspec.Struct, frozen=True):
    """One record, for -o jsonl and csv. The offset is -1 where the server does not tell (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class PartitionSent(msgspec.Struct, frozen=True):
    partition: int
    records: int
    first_offset: int
    last_offset: int


class Summary(msgspec.Struct, frozen=True):
    topic: str
    records: int
    bytes: int
    seconds: float
    partitions: tuple[PartitionSent, ...]


class Sent:
    """What was acknowledged so far."""

    def __init__(self, topic: str, options: Options) -> None:
        self.topic = topic
        self.records = self.bytes = 0
        self.failure: BaseException | None = None
        self.advance: Callable[[int], None] = lambda _: None  # told of bytes that arrived
        self._under_way: deque[tuple[int, asyncio.Future[Delivery]]] = deque()
        self._partitions: dict[int, list[int]] = {}  # records, first offset, last offset
        self._began = time.monotonic()
        self._options = options
        form = options.output_or()
        self._each = (
            form if form in ("jsonl", "csv") else "words" if options.verbosity > 0 and form == "table" else None
        )
        if form == "csv":
            print(",".join(Delivered.__struct_fields__))

    def sent(self, size: int, future: asyncio.Future[Delivery]) -> None:
        self._under_way.append((size, future))

    @property
    def is_full(self) -> bool:
        return len(self._under_way) >= MAX_UNDER_WAY

    async def wait(self) -> None:
        """Until the oldest of those under way has arrived or failed."""
        if self._under_way:
            await asyncio.wait([self._under_way[0][1]])

    def count(self) -> None:
        """Looks which have arrived, oldest first, so that they are told in the order in which they were sent."""
        before = self.bytes + self.records  # a record's delimiter is a byte of the input too
        while self._under_way and self._under_way[0][1].done():
            size, future = self._under_way.popleft()
            if future.cancelled():
                continue
            error = future.exception()
            if error is None:
                self._arrived(size, future.result())
            elif self.failure is None:
                self.failure = error
        self.advance(self.bytes + self.records - before)

    def _arrived(self, size: int, delivery: Delivery) -> None:
        self.records += 1
        self.bytes += size
        offset = delivery.offset
        seen = self._partitions.get(delivery.partition)
        if seen is None:
            self._partitions[delivery.partition] = [1, offset, offset]
        else:
            seen[0] += 1
            seen[1], seen[2] = min(seen[1], offset), max(seen[2], offset)
        if self._each is not None:
            self._tell(Delivered(*delivery))

    def _tell(self, one: Delivered) -> None:
        if self._each == "jsonl":
            print(json_text(one))
        elif self._each == "csv":
            print(f"{one.topic},{one.partition},{one.offset},{one.timestamp_ms}")
        else:
            print(f"{one.topic} partition {one.partition} offset {one.offset} {show_time(one.timestamp_ms)}")

    def finish(self) -> None:
        if self._options.output_or() in ("jsonl", "csv"):
            return
        parts = tuple(PartitionSent(number, *seen) for number, seen in sorted(self._partitions.items()))
        took = round(time.monotonic() - self._began, 3)
        where = (
            f", partition {parts[0].partition}" if len(parts) == 1 else f", {len(parts)} partitions" if parts else ""
        )
        offsets = ""
        if len(parts) == 1 and parts[0].first_offset >= 0:
            first, last = parts[0].first_offset, parts[0].last_offset
            offsets = f", offset {first}" if first == last else f", offsets {first} to {last}"
        words = f"Sent {counted(self.records, 'record')} to {self.topic}{where}{offsets}."
        done(words, Summary(self.topic, self.records, self.bytes, took, parts), self._options)


async def send_all(
    producer: Producer, topic: str, runs: AsyncIterator[Iterator[Sending]], sent: Sent, pace: Pace | None
) -> None:
    """Until the input ends or a record fails; then whatever is under way is waited for."""
    counting = asyncio.create_task(_count_often(sent))
    try:
        async for run in runs:
            for record in run:
                if pace is not None:
                    await pace.wait()
                if sent.is_full:
                    await sent.wait()
                    sent.count()
                value, key = record.value, record.key
                future = await producer.put(topic, value, key, record.headers, record.partition, record.timestamp_ms)
                sent.sent(len(value or b"") + len(key or b""), future)
            sent.count()
            if sent.failure is not None:
                break
        await producer.flush()
    finally:
        counting.cancel()


async def _count_often(sent: Sent) -> None:
    """Somebody may be typing, and wants to see what arrived before the next line."""
    while True:
        await asyncio.sleep(COUNT_S)
        sent.count()
