"""One read of a page of records: find the batches, leave out what nobody should see, decode the rest.

On the loop as long as what it takes is in memory, small and not compressed; else a thread reads, or decodes, and the
rest goes on when that is done. A page goes on over segments and gaps until it has as many records, or as many bytes,
as were asked for; it is empty only at the end of what can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.leftovers import Batch, between
from headrace.broker.partition import Partition
from headrace.errors import CorruptBatch, DamagedRange, HeadraceError, NotLeader, OffsetOutOfRange, StorageFailed
from headrace.log.log import AnyLog
from headrace.log.reader import FileRead, ReadResult
from headrace.ports import Buffer
from headrace.records import codec, kernel
from headrace.records.batch import BatchHeader
from headrace.records.header import CONTROL, TRANSACTIONAL
from headrace.records.record import Record

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

LOOP_BYTES = 32 << 10  # decoded on the loop in one go, in a fraction of a millisecond
MAX_ATTEMPTS = 20  # to read on where segments are being replaced

Aborted = list[tuple[int, int, int]]  # producer id, first offset, offset of the marker
Batches = list[tuple[BatchHeader, memoryview]]


class Page(NamedTuple):
    """`next_offset`: where to read on. `end_offset`: the end of what could be read just then."""

    records: list[Record]
    next_offset: int
    end_offset: int


class Wish(NamedTuple):
    offset: int
    max_records: int
    max_bytes: int
    to_offset: int | None  # no record from there on
    committed: bool


OnPage = Callable[[Page | HeadraceError], None]


class PageRead:
    __slots__ = (
        "_at",
        "_attempts",
        "_broker",
        "_done",
        "_end",
        "_left_bytes",
        "_loop_bytes",
        "_partition",
        "_records",
        "_wish",
    )

    def __init__(self, broker: Broker, partition: Partition, wish: Wish, done: OnPage) -> None:
        self._broker, self._partition, self._wish, self._done = broker, partition, wish, done
        self._at, self._end = wish.offset, -1
        self._left_bytes = max(1, wish.max_bytes)
        self._loop_bytes = 0  # decoded on the loop, since it last had other things to do
        self._records: list[Record] = []
        self._attempts = 0

    def go_on(self, error: HeadraceError | None = None) -> None:
        """Reads from where it is. `error`: of the log's opening."""
        log, wish = self._partition.log, self._wish
        if error is not None or log is None:
            self._done(error or self._partition.error or NotLeader(f"{self._partition!r} was closed"))
            return
        self._end = log.stable_offset if wish.committed else log.written_offset
        end = self._end if wish.to_offset is None else min(self._end, wish.to_offset)
        while len(self._records) < wish.max_records and (self._at < end or self._at == wish.offset):
            if self._left_bytes <= 0:
                break
            if self._take_kept(log, end):
                continue
            try:
                found = log.read(self._at, self._left_bytes, up_to=end)
            except HeadraceError as problem:
                if self._steps_over(problem):
                    continue
                self._done(problem)
                return
            if isinstance(found, FileRead):
                self._broker.background.run(found.run, self._came)
                return
            if not found.pieces:
                break
            if not self._take(found):
                return
        self._finish()

    def _came(self, found: ReadResult | None, error: BaseException | None) -> None:
        self._loop_bytes = 0
        if found is not None and found.pieces:
            self._attempts = 0
            if self._take(found):
                self.go_on()
        elif found is not None and found.next_offset > self._at:
            self._at = found.next_offset
            self.go_on()
        elif found is not None:
            self._finish()
        elif isinstance(error, HeadraceError) and self._steps_over(error):
            self.go_on()
        else:
            self._fail(error)

    def _steps_over(self, error: HeadraceError) -> bool:
        self._attempts += 1
        if isinstance(error, DamagedRange) and error.next_offset > self._at:
            self._at = error.next_offset
            return True
        log = self._partition.log
        is_on_its_way = self._at > self._wish.offset or self._attempts > 1
        if isinstance(error, OffsetOutOfRange) and log is not None and is_on_its_way:
            # Segments are let go, or replaced, while we read.
            self._at = max(self._at, log.start_offset)
            return self._attempts <= MAX_ATTEMPTS
        return False

    def _take_kept(self, log: AnyLog, end: int) -> bool:
        wish = self._wish
        batch = self._broker.reading.leftovers.find(self._partition, wish.committed, log, self._at)
        if batch is None:
            return False
        most = wish.max_records - len(self._records)
        found = between(batch, self._at, end, most)
        self._records += found
        self._at = found[-1].offset + 1 if len(found) == most else min(batch.next_offset, end)
        self._left_bytes -= batch.size * len(found) // len(batch.records)
        return True

    def _take(self, found: ReadResult) -> bool:
        """Whether its records were taken at once; else a thread decodes them, and goes on."""
        log, wish = self._partition.log, self._wish
        self._left_bytes -= found.size
        self._loop_bytes += found.size
        self._partition.topic.traffic.read_bytes += found.size
        at, most = self._at, wish.max_records - len(self._records)
        to_offset = found.next_offset if wish.to_offset is None else min(found.next_offset, wish.to_offset)
        aborted: Aborted = []
        if wish.committed and log is not None and log.transactions.aborted_count:
            aborted = log.transactions.aborted(at, found.next_offset)
        if self._loop_bytes <= LOOP_BYTES:
            batches = split(found.pieces)
            if not any(header.compression for header, _ in batches):
                self._add(decoded(batches, at, to_offset, most, aborted))
                return True
        self._broker.background.run(lambda: decoded(split(found.pieces), at, to_offset, most, aborted), self._decoded)
        return False

    def _decoded(self, came: Decoded | None, error: BaseException | None) -> None:
        self._loop_bytes = 0
        if came is None:
            self._fail(error)
        else:
            self._add(came)
            self.go_on()

    def _add(self, came: Decoded) -> None:
        for offset, why in came.unreadable:
            self._broker.reading.tell_of(self._partition, offset, why)
        if came.left is not None:
            self._broker.reading.leftovers.keep(self._partition, self._wish.committed, came.left)
        self._records += came.records
        self._at = came.next_offset
        if not self._records:  # nothing of what was read counts
            self._left_bytes = max(1, self._wish.max_bytes)

    def _finish(self) -> None:
        self._partition.topic.traffic.read_records += len(self._records)
        self._done(Page(self._records, self._at, self._end))

    def _fail(self, error: BaseException | None) -> None:
        if not isinstance(error, HeadraceError):
            error = StorageFailed(f"{self._partition!r} does not read: {error}")
        self._done(error)


class Decoded(NamedTuple):
    records: list[Record]
    next_offset: int
    unreadable: list[tuple[int, str]]  # batches that are whole and hold no records: offset and why
    left: Batch | None = None  # the last one, if it has more


def split(pieces: Sequence[Buffer]) -> Batches:
    return [batch for piece in pieces for batch in codec.split(piece, check_crc=False)]


def decoded(batches: Batches, from_offset: int, to_offset: int, most: int, aborted: Aborted) -> Decoded:
    """The records between two offsets, so many at most. On any thread."""
    records: list[Record] = []
    unreadable: list[tuple[int, str]] = []
    for header, body in batches:
        if header.attributes & CONTROL or (aborted and is_aborted(header, aborted)):
            continue
        try:
            batch = kernel.decode_records(
                codec.records_bytes(header, body),
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                header.max_timestamp if header.is_log_append_time else None,
            )
        except CorruptBatch as error:
            unreadable.append((header.base_offset, str(error)))
            continue
        if header.base_offset < from_offset or header.next_offset > to_offset:
            records += [record for record in batch if from_offset <= record.offset < to_offset]
        else:
            records += batch
        if len(records) >= most:
            del records[most:]
            next_offset = records[-1].offset + 1
            left = Batch(header.base_offset, header.next_offset, batch, len(body))
            return Decoded(records, next_offset, unreadable, left if next_offset < header.next_offset else None)
    return Decoded(records, to_offset, unreadable)


def is_aborted(header: BatchHeader, aborted: Aborted) -> bool:
    if not header.attributes & TRANSACTIONAL:
        return False
    producer_id, offset = header.producer_id, header.base_offset
    return any(who == producer_id and first <= offset < marker for who, first, marker in aborted)
