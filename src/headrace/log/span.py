"""A stretch of whole batches in a segment's file that can be sent without being looked at: by the kernel, from the
memory in which it keeps the file, without a copy of ours.

Only of what is known to be true: this process wrote it, or read it and found its checksums right, and it has not been
seen to leave memory since. The first read of anything else is an ordinary one, which checks. So what a disk has changed
is still found before it is sent; how sure that is, and what it saves, is in docs/decisions/0011.

A span starts and ends where the index says that batches start. Its first batch is asked for its offset, so that an
index that lies is noticed; at its end it could cost a client no more than a part of a batch, which all of them pass
over.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import TYPE_CHECKING

from headrace.log.tail import ReadResult
from headrace.ports import Files, Unseen

if TYPE_CHECKING:
    from headrace.log.segment import Segment
    from headrace.log.services import Services

SPAN_BYTES = 64 << 10  # below this, to copy is as cheap as to ask
AHEAD_BYTES = 16 << 20  # more than a kernel reads beyond what it was asked for, however it was set up
_OFFSET = Struct(">q")  # what a batch begins with


class Span(Unseen):
    """To be sent at once: nobody keeps its file for it."""

    __slots__ = ("_position", "_segment", "_services", "next_offset", "size")

    def __init__(self, services: Services, segment: Segment, position: int, size: int, next_offset: int) -> None:
        self._services, self._segment, self._position = services, segment, position
        self.size, self.next_offset = size, next_offset

    def __len__(self) -> int:
        return self.size

    def taken(self) -> ReadResult:
        """As bytes of ours, for an answer that has to wait."""
        return ReadResult([self.rest(0)], self.size, self.next_offset)

    def pour(self, pipe: int, done: int) -> int:
        count = self._services.files.pour(self._handle(), pipe, self.size - done, self._position + done)
        if not count:
            raise self._too_short()
        return count

    def rest(self, done: int) -> bytes:
        data = self._services.files.pread(self._handle(), self.size - done, self._position + done)
        if len(data) < self.size - done:
            raise self._too_short()
        return data

    def _handle(self) -> int:
        if self._segment.dropped:  # to open it again would keep its room on the disk
            raise OSError(f"{self._segment.path()} was let go")
        return self._services.budget.open(self._segment)

    def _too_short(self) -> OSError:
        return OSError(f"{self._segment.path()} is shorter than what was written to it")


def doubt_around(segment: Segment, begin: int, end: int) -> None:
    """Some of that stretch has left memory: what comes back from the disk is to be checked again, and with it what the
    kernel brings back beside it."""
    segment.doubt(begin - AHEAD_BYTES, end + AHEAD_BYTES)


def look_ahead(files: Files, handle: int, segment: Segment, begin: int, end: int) -> None:
    """Before that stretch is read: the kernel may read ahead of it. If something there has left memory, it would come
    back unnoticed, and is doubted now."""
    reach = min(end + AHEAD_BYTES, segment.size)
    if segment.knows_some(begin, reach) and not files.is_resident(handle, reach - begin, begin):
        segment.doubt(begin, reach)


def find_span(services: Services, segment: Segment, offset: int, max_bytes: int, up_to: int) -> Span | None:
    """From the batch with `offset`, none that reaches `up_to` or beyond."""
    index = segment.index
    if index is None or segment.has_gaps:
        return None
    offsets, positions, relative = index.offsets, index.positions, offset - segment.base
    place = bisect_right(offsets, relative) - 1
    if offsets[place] != relative:
        return None
    begin = positions[place]
    if segment.size - begin <= max_bytes and segment.next_offset <= up_to:
        end, next_offset = segment.size, segment.next_offset
    else:
        last = min(bisect_right(positions, begin + max_bytes), bisect_right(offsets, up_to - segment.base)) - 1
        if last <= place:
            return None
        end, next_offset = positions[last], segment.base + offsets[last]
    size = end - begin
    if size < SPAN_BYTES or not segment.is_true(begin, end):
        return None
    try:
        handle = services.budget.open(segment)
        if not services.files.is_resident(handle, size, begin):
            doubt_around(segment, begin, end)
            return None
        first = services.files.pread(handle, _OFFSET.size, begin)
    except OSError:
        return None
    if len(first) < _OFFSET.size or _OFFSET.unpack(first)[0] != offset:
        return None
    return Span(services, segment, begin, size, next_offset)
