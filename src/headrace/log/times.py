"""The first record at or after a time. The index says from where to look; only the one batch that holds it is
opened.

A lookup catches what it needs on the loop when it is made, and can then be `run` off it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import CorruptBatch
from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.log.reader import load_index
from headrace.log.segment import Segment
from headrace.log.walk import Walk
from headrace.ports import Buffer

if TYPE_CHECKING:
    from headrace.log.log import Log


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
        for segment, size in self._segments:
            try:
                handle = self._files.open(segment.path())
            except FileNotFoundError:  # let go meanwhile
                continue
            try:
                found = self._search(segment, size, handle)
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
            walk = Walk(fetch, position, size, expected, check_crc=False)
            for at, batch in walk.batches():
                if batch[4] >= self._timestamp_ms and batch[3] > self._start_offset:
                    found = first_record(fetch(batch[1], at), self._timestamp_ms, self._start_offset)
                    if found is not None:
                        return found
            hole = self._holes.at(walk.expected)
            if walk.why is None or hole is None or hole.segment != segment.base or hole.end_position <= walk.position:
                return None
            position, expected = hole.end_position, hole.next_offset


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
