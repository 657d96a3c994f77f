"""The sync journal, the file `synced`: proof of what was synced, for all logs of a store.

After each round of syncs its marks are appended in one write. Nobody waits for a sync of the journal itself: it
survives the process, and is synced now and then, once a second at the most. So after a power loss it may be that old,
which weakens only what recovery can tell damage from a torn tail by. It must never be ahead of the disk, so a mark is
written after the sync that it tells of has returned.

The exception is a log's end: that it was deleted must be known for sure before its files go, or recovery
would take them for lost.

The last whole mark of a log is the true one. A mark whose checksum is wrong (lost pages, torn end) is passed
over.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterable

from headrace.log.format import (
    GONE,
    JOURNAL_HEADER,
    JOURNAL_MAGIC,
    MARK_BYTES,
    VERSION,
    Mark,
    check_version,
    decode_mark,
    encode_mark,
)
from headrace.log.writing import read_whole, replace_file, write_all
from headrace.ports import Files
from headrace.records.kernel import crc32c

ROTATE_BYTES = 1 << 20  # 21,000 marks are read in some 20 ms at a start
ROTATE_RATIO = 4  # with more logs than that holds: when four fifths are out of date


class Journal:
    __slots__ = ("_files", "_handle", "_later", "_limit_bytes", "_marks", "_path", "_size", "is_unsynced")

    def __init__(self, files: Files, path: str) -> None:
        self._files, self._path = files, path
        self._marks = load_marks(files, path)
        self._later: deque[Mark] = deque()
        self._handle, self._size, self._limit_bytes = -1, 0, ROTATE_BYTES
        self.is_unsynced = False  # a power loss would take some of it
        try:
            self._rotate(durable=True)
        except OSError:  # a full disk: go on behind what is there
            self._handle = files.open(path, create=True)
            self._size = max(MARK_BYTES, files.size(self._handle) // MARK_BYTES * MARK_BYTES)

    def mark(self, log_id: bytes) -> Mark | None:
        return self._marks.get(log_id)

    def later(self, mark: Mark) -> None:
        """From any thread: goes along with the next write."""
        self._later.append(mark)

    def append(self, marks: Iterable[Mark]) -> None:
        """One write. That the disk refuses it only weakens the proof, so it is not an error."""
        if self._handle < 0:
            return
        later = [self._later.popleft() for _ in range(len(self._later))]
        data = bytearray()
        for mark in (*later, *marks):
            if mark.generation == GONE:
                self._marks.pop(mark.log_id, None)
            else:
                self._marks[mark.log_id] = mark
            data += encode_mark(mark)
        try:
            if self._size + len(data) > self._limit_bytes:
                self._rotate(durable=False)
            else:
                write_all(self._files, self._handle, data, self._size)
                self._size += len(data)
            self.is_unsynced |= bool(data)
        except OSError:
            return

    def forget(self, log_ids: Iterable[bytes]) -> None:
        """These logs are about to be deleted: sure only after `sync`."""
        later = {mark.log_id for mark in self._later.copy()}
        known = [log_id for log_id in log_ids if log_id in self._marks or log_id in later]
        if known:
            self.append([Mark(log_id, GONE, 0, 0, 0) for log_id in known])

    def sync(self) -> None:
        """Off the loop, and therefore with a handle of its own: the loop may rotate the file meanwhile."""
        handle = self._files.open(self._path)
        try:
            self._files.datasync(handle)
        finally:
            self._files.close(handle)
        self._files.sync_directory(os.path.dirname(self._path))

    def close(self) -> None:
        """Blocks while it is synced."""
        if self._handle >= 0:
            self.append(())
            if self.is_unsynced:
                with contextlib.suppress(OSError):  # it is as old then as after a power loss
                    self.sync()
            self._files.close(self._handle)
            self._handle = -1

    def _rotate(self, *, durable: bool) -> None:
        """A new file with the newest mark of each log takes the old one's place."""
        header = JOURNAL_HEADER.pack(JOURNAL_MAGIC, VERSION, 0, 0)[:-4]
        data = header + crc32c(header).to_bytes(4, "big") + b"".join(map(encode_mark, self._marks.values()))
        replace_file(self._files, self._path, data, durable=durable)
        handle = self._files.open(self._path)
        if self._handle >= 0:
            self._files.close(self._handle)
        self._handle, self._size = handle, len(data)
        self._limit_bytes = max(ROTATE_BYTES, ROTATE_RATIO * len(data))


def load_marks(files: Files, path: str) -> dict[bytes, Mark]:
    """The newest mark of each log. Only reads: a copy of a directory in use begins with this."""
    marks: dict[bytes, Mark] = {}
    if not files.exists(path):
        return marks
    data = memoryview(read_whole(files, path))
    if len(data) < MARK_BYTES:
        return marks
    magic, version, _flags, crc = JOURNAL_HEADER.unpack_from(data)
    if magic == JOURNAL_MAGIC and crc == crc32c(data[: JOURNAL_HEADER.size - 4]):
        check_version(version, path)
    for at in range(MARK_BYTES, len(data) - MARK_BYTES + 1, MARK_BYTES):
        mark = decode_mark(data, at)
        if mark is None:
            continue
        if mark.generation == GONE:
            marks.pop(mark.log_id, None)
        else:
            marks[mark.log_id] = mark
    return marks


assert JOURNAL_HEADER.size == MARK_BYTES, "the header takes the first mark's place"
