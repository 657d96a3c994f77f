"""Records as Arrow tables: what a fetch brought goes straight into columns, and no record becomes an object.

A `Stretch` is what one partition has ready: whole batches, still as they came. Taking it is cheap and happens on the
loop; `tables` unfolds and decodes it, and may run on any thread (the kernel lets others run meanwhile), so that the
next answers come in while the last ones are decoded.

topic, partition    string, int32
offset, timestamp   int64, timestamp[ms, UTC]; no timestamp is -1
timestamp_type      int32: 0 the producer said when, 1 the broker did
key, value          binary; null is told from empty
headers             list of (key string, value binary), in order, keys may repeat

Memory: `prefetch_bytes` of what came, and one stretch of it unfolded, of TABLE_BYTES or one batch at the most.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from headrace.client.consumer import Consumer
from headrace.client.positions import Position
from headrace.client.reading import Reading
from headrace.errors import CorruptBatch, HeadraceError
from headrace.records import columns
from headrace.records.buffers import Run
from headrace.records.header import HEADER_BYTES, BatchHeader

if TYPE_CHECKING:
    import pyarrow as pa

ROWS: Final = 1 << 16  # of one table: what engines like best, and a few megabytes of small records
TABLE_BYTES: Final = 64 << 20  # of one table's records, unfolded; one batch alone may be more
STRETCH_BYTES: Final = 16 << 20  # of one stretch, as it came
NAMES: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
CREATED, APPENDED = 0, 1


class Stretch(NamedTuple):
    """Batches of one partition, one after the other."""

    topic: str
    partition: int
    first: int  # records before this offset are not wanted
    end: int | None  # nor from this one on
    batches: Sequence[tuple[BatchHeader, memoryview]]


class Stretches(Consumer):
    """A consumer that hands out what it fetched as it came."""

    _wanted_rows = ROWS

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._stretches: list[Stretch] = []

    async def stretch(self, rows: int = ROWS, timeout: float | None = None) -> Stretch | None:  # noqa: ASYNC109
        """The next batches of a partition, of about `rows` records if they are there; waits for the first.

        None: everything was read, or nothing came within `timeout` seconds.
        """
        self._wanted_rows = rows
        try:
            async with asyncio.timeout(timeout):
                while not self._stretches:
                    if not await self._more():
                        return None
        except TimeoutError:
            if not self._fill_at_last():
                return None
        return self._stretches.pop()

    def _is_left(self) -> bool:
        return bool(self._stretches)

    def _drop_records(self) -> None:
        super()._drop_records()
        self._stretches = []

    def _fill(self) -> bool:
        """Makes the next batches those to hand out, partition after partition."""
        if self._stretches:
            return True
        in_line = self._fetcher.in_line
        while in_line:
            reading = in_line.popleft()
            found = self._stretch_of(reading)
            reading.is_in_line = bool(reading.chunks)
            if reading.is_in_line:
                in_line.append(reading)  # behind the others, so that no partition starves another
            self._fetcher.wake()
            if found is not None:
                self._stretches.append(found)
                return True
        return False

    def _stretch_of(self, reading: Reading) -> Stretch | None:
        if self._readings.get(reading.where) is not reading:
            reading.chunks.clear()
            return None
        first, rows, size = reading.offset, 0, 0
        batches: list[tuple[BatchHeader, memoryview]] = []
        try:
            while reading.chunks and rows < self._wanted_rows and size < STRETCH_BYTES:
                header, batch = reading.next_batch()
                if batch is not None:
                    batches.append((header, batch))
                    rows, size = rows + header.record_count, size + len(batch)
        except HeadraceError as error:
            reading.move(first)
            reading.error = error
            return None
        return Stretch(*reading.where, first, reading.end, batches) if batches else None


class Tables:
    """The tables of one stretch, one after the other, and where a reader goes on should one not be readable."""

    def __init__(self, stretch: Stretch, names: Sequence[str]) -> None:
        self.stretch = stretch
        self.next_offset = stretch.first
        self._tables = tables(stretch, names)

    def next(self) -> pa.RecordBatch | None:
        """CorruptBatch says where; what came before it was handed out."""
        try:
            found = next(self._tables, None)
        except CorruptBatch as error:
            topic, partition = self.stretch[:2]
            raise CorruptBatch(f"topic {topic!r} partition {partition} from {self.next_offset} on: {error}") from error
        if found is None:
            return None
        self.next_offset, table = found
        return table


class ColumnReader:
    """`async for table in client.columns("topic", follow=False)`: each table is of one partition, in order."""

    def __init__(self, source: Stretches, names: Sequence[str] = NAMES, rows: int = ROWS) -> None:
        checked_names(names)
        if rows < 1:
            raise ValueError(f"a table has at least one row, not {rows}")
        self.source, self.names, self.rows = source, tuple(names), rows
        self._now: Tables | None = None

    async def __aenter__(self) -> Self:
        await self.source.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.source.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        table = await self.take(None)
        if table is None:
            raise StopAsyncIteration
        return table

    async def take(self, timeout: float | None = 1.0) -> pa.RecordBatch | None:  # noqa: ASYNC109
        """The next table; None when everything was read, or nothing came in time."""
        while True:
            if self._now is not None and (table := await self._decoded(self._now)) is not None:
                return table
            stretch = await self.source.stretch(self.rows, timeout)
            if stretch is None:
                return None
            self._now = Tables(stretch, self.names)

    def position(self, topic: str, partition: int) -> int:
        """The offset from which the broker is asked on: after what was handed out, and the rest of its stretch."""
        return self.source.position(topic, partition)

    async def seek(self, topic: str, partition: int, to: Position) -> None:
        if self._now is not None and self._now.stretch[:2] == (topic, partition):
            self._now = None
        await self.source.seek(topic, partition, to)

    async def _decoded(self, tables: Tables) -> pa.RecordBatch | None:
        try:
            return tables.next()
        except HeadraceError:
            self._now = None
            await self.source.seek(*tables.stretch[:2], tables.next_offset)  # it stays there: reading on tries again
            raise


def schema(names: Sequence[str] = NAMES) -> pa.Schema:
    import pyarrow as pa

    checked_names(names)
    known = {field.name: field for field in columns.schema()}
    known["topic"] = pa.field("topic", pa.string(), nullable=False)
    known["partition"] = pa.field("partition", pa.int32(), nullable=False)
    known["timestamp_type"] = pa.field("timestamp_type", pa.int32(), nullable=False)
    return pa.schema([known[name] for name in names])


def checked_names(names: Sequence[str]) -> None:
    if strange := [name for name in names if name not in NAMES]:
        raise ValueError(f"there is no column {', '.join(strange)}; there are {', '.join(NAMES)}")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"columns are named once each, and at least one is: {', '.join(names) or 'none'}")


def tables(stretch: Stretch, names: Sequence[str] = NAMES) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The stretch decoded, with the offset after each table: one as a rule, several when it unfolds to much, its
    timestamps change their kind, or there is damage behind good batches."""
    runs: list[Run] = []
    size, kind = 0, CREATED
    for header, batch in stretch.batches:
        try:
            run = columns.run_of(header, batch[HEADER_BYTES:])
        except CorruptBatch:
            if runs:
                yield from _table(stretch, runs, kind, names)
            raise
        its_kind = APPENDED if header.is_log_append_time else CREATED
        if runs and (size + len(run[0]) > TABLE_BYTES or its_kind != kind):
            yield from _table(stretch, runs, kind, names)
            runs, size = [], 0
        runs.append(run)
        size, kind = size + len(run[0]), its_kind
    if runs:
        yield from _table(stretch, runs, kind, names)


def _table(
    stretch: Stretch, runs: Sequence[Run], kind: int, names: Sequence[str]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    import pyarrow as pa

    try:
        table = columns.table_of(runs)
    except CorruptBatch:
        if len(runs) == 1:
            raise
        for run in runs:  # those before the damage are good
            yield from _table(stretch, [run], kind, names)
        return
    offsets = memoryview(table.column(0).buffers()[1]).cast("B").cast("q")[: table.num_rows]
    first = bisect_left(offsets, stretch.first)
    last = table.num_rows if stretch.end is None else bisect_left(offsets, stretch.end)
    next_offset = offsets[-1] + 1
    if last - first < table.num_rows:
        table = table.slice(first, max(0, last - first))
    if not table.num_rows:
        return
    fixed = {
        "topic": lambda: pa.repeat(pa.scalar(stretch.topic), table.num_rows),
        "partition": lambda: pa.repeat(pa.scalar(stretch.partition, pa.int32()), table.num_rows),
        "timestamp_type": lambda: pa.repeat(pa.scalar(kind, pa.int32()), table.num_rows),
    }
    arrays = [fixed[name]() if name in fixed else table.column(name) for name in names]
    yield next_offset, pa.RecordBatch.from_arrays(arrays, schema=schema(names))
