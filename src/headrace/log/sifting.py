"""One compaction's work off the loop, in steps of a few megabytes: first which key was last written where, then each
group of segments once more, without what went.

Of what is read the offsets are checked as well: they lie outside of a batch's checksum, and only its neighbours tell a
changed one. What is written has no longer all of these, so there a changed offset would be one for good.

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
from headrace.log.sieve import NONE, Damaged, Rules, Sieve, is_aborted, special_at, unfolded
from headrace.log.walk import WINDOW_BYTES, Fetch, Walk
from headrace.log.writing import write_all
from headrace.ports import Files
from headrace.records.batch import HEADER_BYTES, read_header
from headrace.records.header import CONTROL, MAX_OFFSET
from headrace.records.kernel import OffsetMap, cut, pick

STEP_BYTES = 8 << 20  # some ten milliseconds; between steps the thread is others', and the log may be closed

# A window of whole and maybe one torn batch: up to where it was understood.
Take = Callable[[bytes], int]


class DamageMet(StorageFailed):
    """A batch does not read back: a reader will find out how far. Where offsets do not follow each other it may be the
    batch before it that is wrong."""

    def __init__(self, segment: Segment, offset: int, why: str, before: int | None = None) -> None:
        super().__init__(f"{segment.path()}, from offset {offset}: {why}")
        self.segment = segment
        self.doubtful = (offset,) if before is None else (offset, max(before, segment.base))  # to be read


class Enough(Exception):
    """Said by a Take: it wants no more."""


class Place(NamedTuple):
    """How far a walk came."""

    number: int  # of the segment
    position: int = SEGMENT_HEADER_BYTES
    expected: int = NONE  # the offset of the batch there, or a lower one where there are gaps; NONE: the segment's base


def step_over(files: Files, segments: list[Segment], place: Place, holes: Holes, take: Take) -> Place:
    """Hands the batches from `place` on to `take`, a step's worth of them; past holes."""
    done = 0
    while place.number < len(segments) and done < STEP_BYTES:
        segment = segments[place.number]
        handle = files.open(segment.path())
        try:
            behind = _step_in(files, handle, segment, place, holes, take, STEP_BYTES - done)
        finally:
            files.close(handle)
        done += behind.position - place.position
        place = behind if behind.position < segment.size else Place(place.number + 1)
    return place


def _step_in(files: Files, handle: int, segment: Segment, place: Place, holes: Holes, take: Take, limit: int) -> Place:
    number, position, expected = place
    begun, window = position, WINDOW_BYTES
    expected = segment.base if expected == NONE else expected
    while position < segment.size and position - begun < limit:
        end = segment.size
        for hole in holes.of_segment(segment.base):
            if hole.position <= position < hole.end_position:
                position, expected = hole.end_position, hole.next_offset
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
            raise DamageMet(segment, expected, str(error)) from error
        behind = _next_offset(data, position, segment, expected)
        try:
            taken = take(data)
        except Damaged as damage:
            walk, before = _walked(data[: damage.at], position, segment, expected)
            raise DamageMet(segment, walk.expected, damage.why, before) from None
        if not taken and (len(data) < wanted or position + wanted >= end):
            raise DamageMet(segment, expected, "the last batch is cut off")
        if not taken:
            window = read_header(data).size if len(data) >= HEADER_BYTES else 2 * window
        position, expected = position + taken, behind
    return Place(number, position, expected)


def _next_offset(data: bytes, position: int, segment: Segment, expected: int) -> int:
    """Where offsets go on behind the whole batches of a window, of which the first has `expected`, or a later one where
    there are gaps. DamageMet where they do not follow each other. By two walks of the kernel's, which make a value of
    none: with `scan` small batches would take twice the time."""
    _, end, behind, is_wrong = cut(data, 0, len(data), NONE, MAX_OFFSET)
    if not end and not is_wrong:
        return expected
    if segment.has_gaps:
        is_true = read_header(data).base_offset >= expected and behind <= _most(segment, position + end)
    else:
        last = pick(data, expected, behind - 1, MAX_OFFSET, len(data))  # there only if none before it left a gap
        is_true = last is not None and last[1:] == (end, behind)
    if is_wrong or not is_true:
        walk, before = _walked(data, position, segment, expected)
        if is_wrong or walk.position < end:  # else it is a checksum, and the taker's to find
            raise DamageMet(segment, walk.expected, walk.why or "", before)
    return behind


def _walked(data: bytes, position: int, segment: Segment, expected: int) -> tuple[Walk, int]:
    """How far batches follow each other, and where the last of them was expected."""
    before = expected - 1  # of one in the window before, as far as is known

    def fetch(size: int, at: int) -> bytes:
        return data[at : at + size]

    walk = Walk(fetch, 0, len(data), expected, check_crc=False, has_gaps=segment.has_gaps)
    for at, batch in walk.batches():
        if batch[3] > _most(segment, position + at + batch[1]):
            walk.why = f"offset {batch[2]} is too high for where it is: the segment ends before {segment.next_offset}"
            break
        before = walk.expected
    return walk, before


def _most(segment: Segment, position: int) -> int:
    """Where offsets may be at that position: only at the file's end at their own."""
    return segment.next_offset - (position < segment.size)


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
        self.end_offset = end  # up to here the map knows all keys

    def step(self) -> bool:
        """Off the loop. True when it is done."""
        try:
            self._place = step_over(self._files, self._segments, self._place, self._holes, self._take)
        except Enough:
            return True
        return self._place.number >= len(self._segments)

    def _take(self, data: bytes) -> int:
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
                self.end_offset = full_at
                raise Enough


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
        why = walk.why
        if why is None and walk.expected > made.next_offset:
            why = f"it ends at offset {walk.expected}, behind {made.next_offset}"
        if why is not None:  # what was read had been in order
            raise StorageFailed(f"what compaction wrote to {self._path} does not read back: {why}")
