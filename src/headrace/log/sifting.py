"""One compaction's work off the loop, in steps of a few megabytes: first which key was last written where, then each
group of segments once more, without what went.

What is written is a file under its final name only when all of it is there, checked and synced; before that it ends in
`.new`, which the next opening removes. A group of one segment of which nothing goes is left as it is: no byte is
written.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from headrace.errors import CorruptBatch, StorageFailed
from headrace.log.config import LogConfig
from headrace.log.damage import Holes
from headrace.log.format import NEW, SEGMENT_HEADER_BYTES, SegmentHeader, encode_segment_header
from headrace.log.index import MAX_RELATIVE_OFFSET, NO_TIMESTAMP, Index
from headrace.log.segment import Segment
from headrace.log.sieve import Damaged, Rules, Sieve, is_aborted, special_at, unfolded
from headrace.log.walk import WINDOW_BYTES, Fetch, Walk
from headrace.log.writing import write_all
from headrace.ports import Files
from headrace.records.batch import HEADER_BYTES, read_header
from headrace.records.header import CONTROL
from headrace.records.kernel import OffsetMap

STEP_BYTES = 8 << 20  # some ten milliseconds; between steps the thread is others', and the log may be closed

# A window of whole and maybe one torn batch: up to where it was understood.
Take = Callable[[bytes], int]


class DamageMet(StorageFailed):
    """A batch does not read back: a reader will find out how far."""

    def __init__(self, segment: Segment, offset: int, why: str) -> None:
        super().__init__(f"{segment.path()}, from offset {offset}: {why}")
        self.segment, self.offset = segment, offset


class Place(NamedTuple):
    """How far a walk came."""

    number: int  # of the segment
    position: int = SEGMENT_HEADER_BYTES


def step_over(files: Files, segments: list[Segment], place: Place, holes: Holes, take: Take) -> Place:
    """Hands the batches from `place` on to `take`, a step's worth of them; past holes."""
    done, number, position = 0, *place
    while number < len(segments) and done < STEP_BYTES:
        segment = segments[number]
        handle = files.open(segment.path())
        try:
            position, size = _step_in(files, handle, segment, position, holes, take, STEP_BYTES - done)
        finally:
            files.close(handle)
        done += size
        if position >= segment.size:
            number, position = number + 1, SEGMENT_HEADER_BYTES
    return Place(number, position)


def _step_in(
    files: Files, handle: int, segment: Segment, position: int, holes: Holes, take: Take, limit: int
) -> tuple[int, int]:
    begun, window = position, WINDOW_BYTES
    while position < segment.size and position - begun < limit:
        end = segment.size
        for hole in holes.of_segment(segment.base):
            if hole.position <= position < hole.end_position:
                position = hole.end_position
            elif hole.position > position:
                end = min(end, hole.position)
        if position >= end:
            continue
        wanted = min(window, end - position)
        try:
            data = files.pread(handle, wanted, position)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise DamageMet(segment, _offset_at(files, handle, segment, position), str(error)) from error
        try:
            taken = take(data)
        except Damaged as damage:
            where = position + damage.at
            raise DamageMet(segment, _offset_at(files, handle, segment, where), damage.why) from None
        if not taken and (len(data) < wanted or position + wanted >= end):
            raise DamageMet(segment, _offset_at(files, handle, segment, position), "the last batch is cut off")
        if not taken:
            window = read_header(data).size if len(data) >= HEADER_BYTES else 2 * window
        position += taken
    return position, position - begun


def _offset_at(files: Files, handle: int, segment: Segment, position: int) -> int:
    """By the headers before it."""
    walk = Walk(
        lambda size, at: files.pread(handle, size, at),
        SEGMENT_HEADER_BYTES,
        position,
        segment.base,
        check_crc=False,
        has_gaps=True,
    )
    for _ in walk.batches():
        pass
    return walk.expected


class KeyWork:
    """Fills the map with the keys of what is dirty."""

    def __init__(
        self,
        files: Files,
        segments: list[Segment],
        offsets: OffsetMap,
        rules: Rules,
        holes: Holes,
        cleaned: int,
        end: int,
    ) -> None:
        self._files, self._offsets, self._rules, self._holes = files, offsets, rules, holes
        self._segments = [segment for segment in segments if segment.next_offset > cleaned]
        self._cleaned, self._place = cleaned, Place(0)
        self._is_full = False
        self.end_offset = end  # up to here the map knows all keys

    def step(self) -> bool:
        """Off the loop. True when it is done."""
        self._place = step_over(self._files, self._segments, self._place, self._holes, self._take)
        return self._is_full or self._place.number >= len(self._segments)

    def _take(self, data: bytes) -> int:
        if self._is_full:
            return len(data)
        at = 0
        while True:
            at, full_at = self._offsets.note_batches(data, at, len(data), self._cleaned)
            if full_at < 0:
                header = special_at(data, at, len(data)) if at < len(data) else None
                if header is None:
                    return at
                if not header.attributes & CONTROL and not is_aborted(self._rules, header):
                    with suppress(CorruptBatch):
                        body = unfolded(data, at, header)
                        full_at = self._offsets.note(body, header.record_count, header.base_offset, self._cleaned)
                at += header.size
            if full_at >= 0:
                self.end_offset, self._is_full = full_at, True
                return len(data)


class GroupWork:
    """Rewrites some neighbours as one."""

    def __init__(self, files: Files, waiting: list[Segment], sieve: Sieve, log_id: bytes, config: LogConfig) -> None:
        """Takes as many from the front of `waiting` as fit into one segment when they are done."""
        self._files, self._waiting, self._sieve, self._log_id, self._config = files, waiting, sieve, log_id, config
        revision = 1 + max(segment.revision for segment in waiting)
        self.group = group = [waiting.pop(0)]
        self._place = Place(0)
        self._taken = self._size = SEGMENT_HEADER_BYTES  # of a lone segment; of the file
        self._is_begun = False
        self.made = Segment(group[0].folder, group[0].base, group[0].created_ms, revision)

    def step(self) -> bool:
        """Off the loop. True when it is done; `has_changed` then says whether there is a file."""
        self._place = step_over(self._files, self.group, self._place, Holes(), self._take)
        if self._place.number < len(self.group) or self._takes_another():
            return False
        if self._is_begun:
            self._finish()
        return True

    def _takes_another(self) -> bool:
        if not self._waiting:
            return False
        behind, size = self._waiting[0], self._size if self._is_begun else self._taken
        if behind.base != self.group[-1].next_offset or behind.next_offset - self.made.base > MAX_RELATIVE_OFFSET:
            return False
        if size + behind.size - SEGMENT_HEADER_BYTES > self._config.segment_bytes:
            return False
        if not self._is_begun:
            self._begin()
            self._copy(self._taken)
        del self._waiting[0]
        self.group.append(behind)
        return True

    @property
    def has_changed(self) -> bool:
        return self._is_begun

    def discard(self) -> None:
        """Off the loop. What was written goes."""
        with suppress(OSError):
            for path in (self._path, self.made.path()):  # its name is new: nobody else's
                if self._is_begun and self._files.exists(path):
                    self._files.remove(path)

    @property
    def _path(self) -> str:
        return self.made.path() + NEW

    def _take(self, data: bytes) -> int:
        taken, out = self._sieve.sift(data, 0, len(data))
        if self._is_begun or out != data[:taken]:
            if not self._is_begun:
                self._begin()
                self._copy(self._taken)
            self._write(out)
        self._taken += taken
        return taken

    def _begin(self) -> None:
        handle = self._files.open(self._path, create=True)
        try:
            self._files.truncate(handle, 0)
            write_all(self._files, handle, bytes(SEGMENT_HEADER_BYTES), 0)
        finally:
            self._files.close(handle)
        self._is_begun = True

    def _copy(self, end: int) -> None:
        """What was read so far stays as it was."""
        handle = self._files.open(self.group[0].path())
        try:
            while self._size < end:
                data = self._files.pread(handle, min(WINDOW_BYTES, end - self._size), self._size)
                if not data:
                    raise OSError(f"{self.group[0].path()} became shorter while it was read")
                self._write(data)
        finally:
            self._files.close(handle)

    def _write(self, data: bytes | bytearray) -> None:
        handle = self._files.open(self._path)
        try:
            write_all(self._files, handle, data, self._size)
        finally:
            self._files.close(handle)
        self._size += len(data)

    def _finish(self) -> None:
        files, made = self._files, self.made
        made.size = made.synced = self._size
        made.next_offset = self.group[-1].next_offset
        header = SegmentHeader(made.base, made.created_ms, self._log_id, made.revision, made.size, made.next_offset)
        handle = files.open(self._path)
        try:
            write_all(files, handle, encode_segment_header(header), 0)
            files.datasync(handle)
            self._check(lambda size, position: files.pread(handle, size, position))
        finally:
            files.close(handle)
        files.rename(self._path, made.path())
        files.sync_directory(made.folder)

    def _check(self, fetch: Fetch) -> None:
        """Reads back what was written, and makes the index on the way."""
        made, made.max_timestamp = self.made, NO_TIMESTAMP
        made.index, made.indexed_at = Index(), SEGMENT_HEADER_BYTES
        walk = Walk(fetch, SEGMENT_HEADER_BYTES, made.size, made.base, check_crc=True, has_gaps=True)
        for at, batch in walk.batches():
            made.note(batch[2], at, batch[4], self._config.index_interval_bytes)
        if walk.why is not None or walk.expected > made.next_offset:
            raise StorageFailed(f"what compaction wrote to {self._path} does not read back: {walk.why}")
