"""The sync journal, the file `synced`: proof of what was synced, for all logs of a store.

After each round of syncs its marks are appended in one write. Nobody waits for a sync of the journal itself: it
survives the process, and is synced now and then, once a second or so (`keep`). So after a power loss it may be that
old, which weakens only what recovery can tell damage from a torn tail by. It must never be ahead of the disk, so a mark
is written after the sync that it tells of has returned.

The exception is a log's end: that it was deleted must be known for sure before its files go, or recovery
would take them for lost.

When the file has grown long it is replaced by one with the newest mark of each log; and when a write or a sync of it
has failed, since a sync that is tried again after that proves nothing. The new file is written and synced in the
background, and only then takes the old one's name: a power loss finds one or the other, whole.

The last whole mark of a log is the true one. A mark whose checksum is wrong (lost pages, torn end) is passed
over.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterable
from functools import partial

from headrace.log.format import (
    GONE,
    JOURNAL_HEADER,
    JOURNAL_MAGIC,
    MARK_BYTES,
    NEW,
    VERSION,
    Mark,
    check_version,
    decode_mark,
    encode_mark,
)
from headrace.log.writing import read_whole, replace_file, write_all, write_beside
from headrace.ports import Background, Files
from headrace.records.kernel import crc32c

ROTATE_BYTES = 1 << 20  # 21,000 marks are read in some 20 ms at a start
ROTATE_RATIO = 4  # with more logs than that holds: when four fifths are out of date
MOST_RATIO = 16  # of that: more is not written, while a disk lets no new file take its place


class Journal:
    __slots__ = (
        "_files",
        "_handle",
        "_is_keeping",
        "_is_unsynced",
        "_is_worn",
        "_later",
        "_limit_bytes",
        "_marks",
        "_named",
        "_path",
        "_renewals",
        "_since",
        "_size",
    )

    def __init__(self, files: Files, path: str) -> None:
        self._files, self._path = files, path
        self._marks = load_marks(files, path)
        self._later: deque[Mark] = deque()
        self._handle, self._size, self._limit_bytes = -1, 0, ROTATE_BYTES
        self._is_unsynced = False  # a power loss would take some of it
        self._is_worn = False  # a write or a sync of this file has failed: only a new one proves anything
        self._is_keeping = False  # in the background
        self._since: bytearray | None = None  # what came while a new file is made
        self._renewals = 0  # how often a new file took the old one's place;
        self._named = 0  # and so often the directory is sure to know it
        try:
            self._replace()
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
        if not data:
            return
        self._is_unsynced = True
        if self._since is not None:  # first: what this file takes no more is still the new one's
            self._since += data
        if self._size > MOST_RATIO * self._limit_bytes:
            self._is_worn = True
            return
        try:
            write_all(self._files, self._handle, data, self._size)
            self._size += len(data)
        except OSError:
            self._is_worn = True

    def forget(self, log_ids: Iterable[bytes]) -> None:
        """These logs are about to be deleted: sure only after `sync`."""
        later = {mark.log_id for mark in self._later.copy()}
        known = [log_id for log_id in log_ids if log_id in self._marks or log_id in later]
        if known:
            self.append([Mark(log_id, GONE, 0, 0, 0) for log_id in known])

    def sync(self) -> None:
        """Off the loop, and therefore with a handle of its own: another file may take this one's place meanwhile, which
        is then synced as well."""
        renewals = -1
        while renewals != self._renewals:
            renewals = self._renewals
            handle = self._files.open(self._path)
            try:
                self._files.datasync(handle)
            except OSError:
                self._is_worn = True
                raise
            finally:
                self._files.close(handle)
            if self._named != renewals:
                self._files.sync_directory(os.path.dirname(self._path))
                self._named = renewals

    def keep(self, background: Background) -> None:
        """Now and then: what is new in it shall outlive a power loss."""
        if self._is_keeping:
            return
        self.append(())
        if self._handle < 0:
            return
        if self._is_worn or self._size > self._limit_bytes:
            self._is_keeping, self._since, data = True, bytearray(), self._whole()
            background.run(partial(write_beside, self._files, self._path, data), partial(self._renew, len(data)))
        elif self._is_unsynced:
            self._is_keeping, self._is_unsynced = True, False
            background.run(self.sync, self._kept)

    def close(self) -> None:
        """Blocks while it is synced."""
        if self._handle < 0:
            return
        self.append(())
        with contextlib.suppress(OSError):  # it is as old then as after a power loss
            if self._is_worn and self._since is None:
                self._replace()
            elif self._is_unsynced or self._is_keeping:
                self.sync()
        self._files.close(self._handle)
        self._handle = -1

    def _kept(self, _: None, error: BaseException | None) -> None:
        self._is_keeping = False
        if error is not None:  # the next time, then
            self._is_unsynced = True

    def _renew(self, size: int, _: None, error: BaseException | None) -> None:
        """A new file is there, and synced: with what came since it takes the old one's place."""
        since, self._since, self._is_keeping = self._since, None, False
        if error is not None or self._handle < 0 or since is None:  # the next time, then; or never
            return
        handle = -1
        try:
            handle = self._files.open(self._path + NEW)
            write_all(self._files, handle, since, size)
            self._is_worn = False  # before a `sync` can find the new one: what that says of it stays
            self._files.rename(self._path + NEW, self._path)
        except OSError:
            if handle >= 0:
                self._files.close(handle)
            self._is_worn = True
            return
        self._take(handle, size, len(since))
        self._is_unsynced = True
        self._renewals += 1

    def _replace(self) -> None:
        """The same, at once. Blocks."""
        data = self._whole()
        replace_file(self._files, self._path, data, durable=True)
        self._take(self._files.open(self._path), len(data), 0)
        self._is_unsynced = self._is_worn = False

    def _take(self, handle: int, whole_bytes: int, more_bytes: int) -> None:
        if self._handle >= 0:
            self._files.close(self._handle)
        self._handle, self._size = handle, whole_bytes + more_bytes
        self._limit_bytes = max(ROTATE_BYTES, ROTATE_RATIO * whole_bytes)

    def _whole(self) -> bytes:
        header = JOURNAL_HEADER.pack(JOURNAL_MAGIC, VERSION, 0, 0)[:-4]
        return header + crc32c(header).to_bytes(4, "big") + b"".join(map(encode_mark, self._marks.values()))


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
