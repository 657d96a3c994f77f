"""The first record at or after a time. The index says from where to look; only the one batch that holds it is
opened.

A lookup catches what it needs on the loop when it is made, and can then be `run` off it: it opens the files for
itself, and what is let go or cut off meanwhile is not found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import CorruptBatch, StorageFailed
from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.log.reader import load_index
from headrace.log.segment import Segment
from headrace.log.walk import Walk
from headrace.log.writing import explain
from headrace.ports import Buffer
from headrace.records.kernel import scan

if TYPE_CHECKING:
    from headrace.log.log import Log


NEVER = (1 << 63) - 1  # no record is that late


class TimeLookup:
    __slots__ = ("_files", "_holes", "_interval_bytes", "_segments", "_start_offset", "_timestamp_ms")

    def __init__(self, log: Log, timestamp_ms: int) -> None:
        self._files, self._holes, self._start_offset = log.services.files, log.holes, log.start_offset
        self._interval_bytes, self._timestamp_ms = log.config.index_interval_bytes, timestamp_ms
        self._segments = [
            (segment, segment.size)
            for segment in log.segments
            if segment.size > SEGMENT_HEADER_BYTES and segment.max_timestamp >= timestamp_ms
        ]

    def run(self) -> tuple[int, int] | None:
        """(offset, timestamp), or None when there is no such record."""
        waiting, seen = list(reversed(self._segments)), set()
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
                found = self._search(segment, size, handle)
            except OSError as error:
                raise StorageFailed(f"{segment.path()} does not read ({error}): check the disk") from error
            finally:
                self._files.close(handle)
            if found is not None:
                return found
        return None

    def _search(self, segment: Segment, size: int, handle: int) -> tuple[int, int] | None:
        def fetch(wanted: int, position: int) -> bytes:
            return self._files.pread(handle, wanted, position)

        index = segment.index or load_index(self._files, segment, fetch, self._holes, self._interval_bytes)
        relative, position = index.find_time(self._timestamp_ms)
        expected = segment.base + relative
        while True:
            walk = Walk(fetch, position, size, expected, check_crc=False, has_gaps=segment.has_gaps)
            for at, batch in walk.batches():
                if batch[4] >= self._timestamp_ms and batch[3] > self._start_offset:
                    data = fetch(batch[1], at)
                    if len(data) < batch[1]:  # cut off meanwhile
                        return None
                    found = first_record(data, self._timestamp_ms, self._start_offset)
                    if found is not None:
                        return found
            hole = self._holes.at(walk.expected)
            if walk.why is None or hole is None or hole.segment != segment.base or hole.end_position <= walk.position:
                return None
            position, expected = hole.end_position, hole.next_offset


class MemoryLookup:
    """The same where all is in memory: views of what was there when the lookup was made."""

    __slots__ = ("_start_offset", "_timestamp_ms", "_views")

    def __init__(self, views: list[memoryview], start_offset: int, timestamp_ms: int | None) -> None:
        self._views, self._start_offset = views, start_offset
        self._timestamp_ms = timestamp_ms  # None: the largest

    def run(self) -> tuple[int, int] | None:
        batches = [
            (view, batch)
            for view in self._views
            for batch in scan(view, 0, len(view), -1, False)[0]
            if batch[3] > self._start_offset
        ]
        timestamp_ms = self._timestamp_ms
        if timestamp_ms is None:
            timestamp_ms = max((batch[4] for _, batch in batches), default=NEVER)
        for view, (position, size, _, _, max_timestamp, *_) in batches:
            if max_timestamp >= timestamp_ms:
                found = first_record(view[position : position + size], timestamp_ms, self._start_offset)
                if found is not None:
                    return found
        return None


def first_record(batch: Buffer, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
    """Within one batch. Of a batch whose records can not be opened, the batch's own start and time."""
    from headrace.records.batch import read_header
    from headrace.records.codec import decode  # late: it brings the compressions along

    try:
        records = decode(batch, check_crc=False)
    except CorruptBatch:
        header = read_header(batch)
        return max(header.base_offset, start_offset), header.max_timestamp
    for record in records:
        if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
            return record.offset, record.timestamp_ms
    return None
