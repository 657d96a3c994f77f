"""A hundred gibibytes of records that a disk hardly notices: true batches of zeros, in files that are mostly holes.

Every batch is whole and its checksum right, so the log may read any of it; all are the same batch but for their
offsets, which lie outside of the checksum.
"""

from __future__ import annotations

import os
from pathlib import Path

from headrace.log.files import OsFiles
from headrace.log.format import SEGMENT_HEADER_BYTES, SegmentHeader, encode_segment_header
from headrace.log.index import Index
from headrace.log.mending import save_index
from headrace.log.segment import Segment
from headrace.log.snapshot import SegmentState, Snapshot, encode_snapshot, save_snapshot
from headrace.records import codec
from headrace.records.batch import assign
from headrace.records.record import Record

BATCH_BYTES = 8 << 20  # about; large, so that there are few
HEAD_BYTES = 128  # of a batch: all of it that is not zero
BATCHES = 127  # in a segment of almost a gibibyte
TIME_MS = 1_790_000_000_000


class Unsynced(OsFiles):
    """Nobody takes the power away here, and a thousand syncs would wait for all that the machine writes."""

    def datasync(self, handle: int) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass


class SparseLog:
    """The folder of one partition's log, before its node starts. The last segment is the active one."""

    def __init__(self, folder: Path, log_id: bytes) -> None:
        self.folder, self._log_id = folder, log_id
        self._batch = codec.encode([Record(b"zeros", bytes(BATCH_BYTES), (), TIME_MS, 0)])
        assert not any(self._batch[HEAD_BYTES:])
        self._states: list[SegmentState] = []
        self.next_offset = 0
        self.size_bytes = 0
        folder.mkdir(parents=True)

    def add_segment(self, batches: int = BATCHES) -> None:
        segment = Segment(str(self.folder), self.next_offset, TIME_MS)
        segment.index = Index()
        segment.size = SEGMENT_HEADER_BYTES
        head = self._batch[:HEAD_BYTES]
        with open(segment.path(), "wb") as file:
            file.write(encode_segment_header(SegmentHeader(segment.base, TIME_MS, self._log_id)))
            for _ in range(batches):
                assign(head, 0, self.next_offset, 0)
                os.pwrite(file.fileno(), head, segment.size)
                segment.note(self.next_offset, segment.size, TIME_MS, 1)
                segment.size += len(self._batch)
                self.next_offset += 1
            file.truncate(segment.size)
        save_index(Unsynced(), segment, segment.index.encode(segment.base, segment.size))
        self._states.append(SegmentState(segment.base, self.next_offset, segment.size, TIME_MS, TIME_MS))
        self.size_bytes += segment.size

    def save(self) -> None:
        """The snapshot, as a running node would have left it."""
        snapshot = Snapshot(0, 0, self.next_offset, self._states, [(0, 0)], [])
        save_snapshot(Unsynced(), str(self.folder), encode_snapshot(snapshot))
