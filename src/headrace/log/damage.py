"""Holes: ranges of offsets whose synced bytes no longer read back. They are written down beside the segment
and never cut.

A hole ends where the next true batch starts, else where the segment's successor or the last proof of a sync
says that offsets go on. Offsets in a hole are never given out again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

import msgspec

from headrace.log.format import DAMAGE, segment_name
from headrace.log.writing import is_short_of_handles, read_whole, replace_file
from headrace.ports import Files


class Hole(msgspec.Struct, frozen=True, order=True):
    offset: int
    next_offset: int
    segment: int
    position: int
    end_position: int  # where reading goes on in the segment; its end when nothing follows in it
    why: str


class Holes:
    """All holes of one log. Replaced whole, never changed, so that a read in the background may look at
    it."""

    __slots__ = ("_holes", "_offsets")

    def __init__(self, holes: Iterable[Hole] = ()) -> None:
        self._holes = tuple(sorted(holes))
        self._offsets = [hole.offset for hole in self._holes]

    def __bool__(self) -> bool:
        return bool(self._holes)

    def __iter__(self) -> Iterator[Hole]:
        return iter(self._holes)

    def at(self, offset: int) -> Hole | None:
        place = bisect_right(self._offsets, offset) - 1
        if place >= 0 and offset < self._holes[place].next_offset:
            return self._holes[place]
        return None

    def next_start(self, offset: int, end: int) -> int:
        """Where reading from `offset` must stop: at the next hole, at `end` at the latest."""
        place = bisect_right(self._offsets, offset)
        return min(end, self._offsets[place]) if place < len(self._offsets) else end

    def skip(self, segment: int, position: int, offset: int) -> tuple[int, int] | None:
        """Where reading for `offset` starts instead, when `position` lies before or in a hole: (position, its
        offset)."""
        found = None
        for hole in self._holes:
            if hole.segment == segment and hole.next_offset <= offset and position < hole.end_position:
                found = position, _ = hole.end_position, hole.next_offset
        return found

    def with_hole(self, hole: Hole) -> Holes:
        others = [other for other in self._holes if other.offset != hole.offset]
        return Holes([*others, hole])

    def without_before(self, offset: int) -> Holes:
        return Holes(hole for hole in self._holes if hole.next_offset > offset)

    def of_segment(self, base: int) -> list[Hole]:
        return [hole for hole in self._holes if hole.segment == base]


def load_holes(files: Files, folder: str, names: Iterable[str]) -> list[Hole]:
    """All that was written down. A file that does not read is passed over: recovery or a reader finds its
    holes again."""
    holes: list[Hole] = []
    for name in names:
        if name.endswith(DAMAGE):
            try:
                holes += msgspec.json.decode(read_whole(files, f"{folder}/{name}"), type=list[Hole])
            except (msgspec.MsgspecError, OSError) as error:
                if is_short_of_handles(error):  # it may be whole
                    raise
    return holes


def cut_holes(files: Files, folder: str, holes: Holes, end_offset: int, base: int) -> Holes:
    """Those before `end_offset`, where the log ends now, in the segment with that base: the others would tell of
    offsets that will be given out again."""
    kept = Holes(hole for hole in holes if hole.next_offset <= end_offset)
    if kept.of_segment(base) != holes.of_segment(base):
        save_holes(files, folder, base, kept.of_segment(base))
    return kept


def save_holes(files: Files, folder: str, base: int, holes: Iterable[Hole]) -> None:
    text = msgspec.json.format(msgspec.json.encode(list(holes)), indent=2)
    replace_file(files, f"{folder}/{segment_name(base, DAMAGE)}", text, durable=True)
