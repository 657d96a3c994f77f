"""The first record at or after a time, or with the largest. The index says from where to look; only the one batch that
holds it is opened, and checked.

What a segment says of its times is a bound: the record that had the largest may lie before the log's start, or have
been cut off its end. Only then are the headers behind the start walked over.

A lookup catches what it needs on the loop when it is made, and can then be `run` off it: it opens the files for
itself, and what is let go or cut off meanwhile is not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from headrace.errors import CorruptBatch, OffsetOutOfRange, StorageFailed
from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.log.index import NO_TIMESTAMP, Index
from headrace.log.indexing import build_index, load_index
from headrace.log.overlap import last_in_doubt
from headrace.log.patient import PatientReader
from headrace.log.places import header_at
from headrace.log.reader import OUT_OF_ORDER
from headrace.log.segment import Segment
from headrace.log.walk import Fetch, Scanned, Walk
from headrace.log.writing import explain
from headrace.ports import Buffer
from headrace.records.kernel import scan

if TYPE_CHECKING:
    from headrace.log.log import Log


NEVER = (1 << 63) - 1  # no record is that late

Found = tuple[int, int]  # offset, timestamp


class TimeLookup:
    __slots__ = (
        "_active",
        "_files",
        "_holes",
        "_interval_bytes",
        "_log",
        "_segments",
        "_start_offset",
        "_timestamp_ms",
    )

    def __init__(self, log: Log, timestamp_ms: int) -> None:
        self._log, self._files, self._holes, self._start_offset = log, log.services.files, log.holes, log.start_offset
        self._interval_bytes, self._timestamp_ms = log.config.index_interval_bytes, timestamp_ms
        self._segments = [
            (segment, segment.size)
            for segment in log.segments
            if segment.size > SEGMENT_HEADER_BYTES and segment.max_timestamp >= timestamp_ms
        ]
        self._active = log.segments[-1] if log.segments else None

    def run(self) -> Found | None:
        """(offset, timestamp), or None when there is no such record."""
        return next(self._finds(self._segments), None)

    def _finds(self, segments: list[tuple[Segment, int]]) -> Iterator[Found]:
        """What `_search` finds in each of them."""
        waiting, seen = list(reversed(segments)), set()
        while waiting:
            segment, size = waiting.pop()
            try:
                handle = self._files.open(segment.path())
            except FileNotFoundError:  # let go meanwhile, or replaced
                made = segment.successor
                if made is not None and made not in seen:  # it may have taken the place of several
                    seen.add(made)
                    waiting.append((made, made.size))
                continue
            except OSError as error:
                raise explain(error, f"reading {segment.path()}") from error
            try:
                # What is not known to be a hole has to read.
                reader = PatientReader(self._files, handle, segment.path(), None, self._holes.of_segment(segment.base))
                reader.insist()
                found = self._search(segment, size, reader.fetch)
            except OSError as error:
                raise StorageFailed(f"{segment.path()} does not read ({error}): check the disk") from error
            finally:
                self._files.close(handle)
            if found is not None:
                yield found

    def _search(self, segment: Segment, size: int, fetch: Fetch) -> Found | None:
        return self._first(segment, size, fetch, self._timestamp_ms)

    def _first(self, segment: Segment, size: int, fetch: Fetch, timestamp_ms: int) -> Found | None:
        while True:
            for at, batch, expected in self._batches(segment, size, fetch, timestamp_ms):
                data = fetch(batch[1], at)
                if len(data) < batch[1]:  # cut off meanwhile
                    return None
                why = scan(data, 0, len(data), -1, True)[2]
                if why is None and self._is_in_doubt(segment, size, fetch, at, batch, expected):
                    why = OUT_OF_ORDER
                if why is not None:
                    if not self._has_judged(segment, expected, why):
                        return None
                    break  # anew: its header is not to be gone on from
                found = first_record(data, timestamp_ms, self._start_offset)
                if found is not None:
                    return found
            else:
                return None

    def _is_in_doubt(self, segment: Segment, size: int, fetch: Fetch, at: int, batch: Scanned, expected: int) -> bool:
        """Its offset, which only its neighbours tell where there are gaps."""
        first = at, batch[2], batch[3]
        is_told = segment.has_gaps
        return is_told and last_in_doubt(fetch, size, segment.next_offset, expected, first, at + batch[1]) is not None

    def _batches(
        self, segment: Segment, size: int, fetch: Fetch, timestamp_ms: int
    ) -> Iterator[tuple[int, Scanned, int]]:
        """Those behind the log's start that may hold a record of that time or later, each with its position and the
        offset that it comes after; some twice where damage is met that nobody knew of. A damaged one may still have its
        header."""
        index = segment.index or load_index(self._files, segment, fetch, self._holes, self._interval_bytes)
        if segment is self._active and segment.index is None:  # the others' are kept by who reads them, and bounded
            segment.index = index
        if not self._is_true_at(index, segment, size, fetch, timestamp_ms):
            index = build_index(segment, fetch, self._holes, self._interval_bytes)  # up to damage: for this look alone
        relative, position = index.find_time(timestamp_ms)
        expected = segment.base + relative
        while position < size:
            behind = (hole for hole in self._holes.of_segment(segment.base) if hole.end_position > position)
            hole = next(behind, None)
            if hole is not None and hole.position <= position:
                position, expected = hole.end_position, hole.next_offset
                continue
            end = min(hole.position, size) if hole is not None else size
            walk = Walk(fetch, position, end, expected, check_crc=False, has_gaps=segment.has_gaps)
            for at, batch in walk.batches():
                if batch[4] >= timestamp_ms and batch[3] > self._start_offset:
                    yield at, batch, walk.expected
            if walk.why is None:
                position, expected = end, walk.expected
                continue
            # The first batch on the way that is not true is the damaged one.
            walk = Walk(fetch, position, end, expected, check_crc=True, has_gaps=segment.has_gaps)
            for at, batch in walk.batches():
                if self._is_in_doubt(segment, size, fetch, at, batch, walk.expected):
                    break
            if not self._has_judged(segment, walk.expected, walk.why or "it did a moment ago"):
                return

    def _is_true_at(self, index: Index, segment: Segment, size: int, fetch: Fetch, timestamp_ms: int) -> bool:
        """Where the index points is the batch that it names, or what is known to be damaged."""
        relative, position = index.find_time(timestamp_ms)
        if position == SEGMENT_HEADER_BYTES or position >= size:
            return True
        if any(hole.position <= position < hole.end_position for hole in self._holes.of_segment(segment.base)):
            return True
        header = header_at(fetch, position, size)
        return header is not None and header.base_offset == segment.base + relative

    def _has_judged(self, segment: Segment, offset: int, why: str) -> bool:
        """There is a hole that nobody knew of, from the offset on. False: what was there is cut off."""
        known = self._holes.of_segment(segment.base)
        try:
            self._log.judge(segment, offset)
        except OffsetOutOfRange:
            return False
        self._holes = self._log.holes
        if self._holes.of_segment(segment.base) == known:
            raise StorageFailed(f"{segment.path()} does not read as it should: {why}")
        return True


class MaxTimeLookup(TimeLookup):
    """The first record with the largest timestamp."""

    __slots__ = ()

    def __init__(self, log: Log) -> None:
        super().__init__(log, NO_TIMESTAMP)

    def run(self) -> Found | None:
        best: Found | None = None
        by_bound = sorted(self._segments, key=lambda part: part[0].max_timestamp, reverse=True)
        for segment, size in by_bound:
            if best is not None and (segment.max_timestamp, -segment.base) < (best[1], -best[0]):
                continue
            for found in self._finds([(segment, size)]):
                best = found if best is None else max(best, found, key=_time_then_first)
        return best

    def _search(self, segment: Segment, size: int, fetch: Fetch) -> Found | None:
        found = self._first(segment, size, fetch, segment.max_timestamp)
        while found is None:
            times = (
                largest_time(batch, partial(fetch, batch[1], at), self._start_offset)
                for at, batch, _ in self._batches(segment, size, fetch, NO_TIMESTAMP)
            )
            known, largest_ms = self._holes, max(times, default=NEVER)
            found = self._first(segment, size, fetch, largest_ms)
            if self._holes is known:
                break  # else it was a damaged batch that said so
        return found


class MemoryLookup:
    """The same where all is in memory: views of what was there when the lookup was made."""

    __slots__ = ("_start_offset", "_timestamp_ms", "_views")

    def __init__(self, views: list[memoryview], start_offset: int, timestamp_ms: int | None) -> None:
        self._views, self._start_offset = views, start_offset
        self._timestamp_ms = timestamp_ms  # None: the largest

    def run(self) -> Found | None:
        start_offset, timestamp_ms = self._start_offset, self._timestamp_ms
        batches = [
            (view[batch[0] : batch[0] + batch[1]], batch)
            for view in self._views
            for batch in scan(view, 0, len(view), -1, False)[0]
            if batch[3] > start_offset
        ]
        if timestamp_ms is None:
            times = (largest_time(batch, partial(bytes, data), start_offset) for data, batch in batches)
            timestamp_ms = max(times, default=NEVER)
        for data, batch in batches:
            if batch[4] >= timestamp_ms:
                found = first_record(data, timestamp_ms, start_offset)
                if found is not None:
                    return found
        return None


def _time_then_first(found: Found) -> tuple[int, int]:
    return found[1], -found[0]


def largest_time(batch: Scanned, read: Callable[[], Buffer], start_offset: int) -> int:
    """Of the records of a batch that lie behind the log's start; what its header says, where they can not be opened."""
    from headrace.records.codec import survey  # late: it brings the compressions along

    if batch[2] >= start_offset:
        return batch[4]
    try:
        largest_ms = survey(read(), start_offset).largest_ms
    except CorruptBatch:
        return batch[4]
    return NO_TIMESTAMP if largest_ms is None else largest_ms


def first_record(batch: Buffer, timestamp_ms: int, start_offset: int) -> Found | None:
    """Within one batch, be it a transaction's marker: that has its time and offset as all have, and Kafka tells them
    too. Of a batch whose records can not be opened, the batch's own start and time."""
    from headrace.records.batch import read_header
    from headrace.records.codec import survey  # late: it brings the compressions along

    try:
        return survey(batch, start_offset, timestamp_ms).first
    except CorruptBatch:
        header = read_header(batch)
        return max(header.base_offset, start_offset), header.max_timestamp
