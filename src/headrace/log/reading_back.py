"""A log's transactions as they were at an offset, read back from its batches: for a cut of the end that goes further
back than commits are remembered. Off the loop; it walks over headers from the log's start, and looks into markers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.log.segment import Segment
from headrace.log.transactions import SavedTransactions, Transactions
from headrace.log.walk import Walk
from headrace.records.control import decode_marker
from headrace.records.header import CONTROL, TRANSACTIONAL

if TYPE_CHECKING:
    from headrace.log.log import Log


def transactions_at(log: Log, segments: Sequence[Segment], offset: int) -> SavedTransactions:
    found = Transactions()
    for segment in segments:
        if segment.base < offset and segment.size:
            _read(log, segment, offset, found)
    found.cut_start(log.start_offset)
    return found.save()


def _read(log: Log, segment: Segment, offset: int, found: Transactions) -> None:
    files = log.services.files
    handle = files.open(segment.path())

    def fetch(size: int, position: int) -> bytes:
        return files.pread(handle, size, position)

    position, expected = SEGMENT_HEADER_BYTES, segment.base
    try:
        while True:
            walk = Walk(fetch, position, segment.size, expected, check_crc=False, has_gaps=segment.has_gaps)
            for at, batch in walk.batches():
                if batch[3] > offset:
                    return
                _, size, base_offset, _, _, _, producer_id, _, _, attributes = batch
                if attributes & CONTROL:
                    marker = decode_marker(fetch(size, at))
                    if marker is not None:
                        found.end(producer_id, base_offset, marker.is_commit, marker.coordinator_epoch)
                elif attributes & TRANSACTIONAL:
                    found.begin(producer_id, base_offset)
            hole = log.holes.at(walk.expected) if walk.why is not None else None
            if hole is None or hole.segment != segment.base:
                return
            position, expected = hole.end_position, hole.next_offset
    finally:
        files.close(handle)
