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
from headrace.log.walk import Fetch
from headrace.log.writing import is_short_of_handles, read_whole, replace_file
from headrace.ports import Files
from headrace.records.batch import HEADER_BYTES, BatchHeader, read_header
from headrace.records.header import CRC_FROM, MAGIC, MAGIC_AT, implausible
from headrace.records.kernel import crc32c, scan

SEARCH_BYTES = 1 << 20
MOST_DOUBTFUL = 16  # true batches that are remembered while a certain one is looked for
_MAGIC_BYTE = bytes((MAGIC,))


class Hole(msgspec.Struct, frozen=True, order=True):
    offset: int
    next_offset: int
    segment: int
    position: int
    end_position: int  # where reading goes on in the segment; its end when nothing follows in it
    why: str


def next_batch(fetch: Fetch, position: int, end: int, after_offset: int, known_offset: int) -> tuple[int, int] | None:
    """(position, base offset) of the first true batch after the damaged one at `position`.

    A batch's checksum does not cover its offset, so that needs evidence of its own. It lies after `after_offset` and
    before `known_offset`, or goes on from there. It is certain when the damaged batch still says that this is its
    successor, or the batch behind it does go on from it; likely when the batch behind it has a true checksum, but no
    offset that could be. The first that is certain is taken, unless one before it leaves room for it and is likely, or
    is where the damaged batch's length leads to. Without any of these it is the first of all.
    """
    damaged = fetch(HEADER_BYTES, position)
    successor, hop = -1, -1
    if len(damaged) == HEADER_BYTES:
        successor, hop = read_header(damaged).next_offset, position + read_header(damaged).size
    best: tuple[int, BatchHeader] | None = None
    others: list[tuple[int, BatchHeader]] = []
    first: tuple[int, int] | None = None
    for at, header in _candidates(fetch, position, end):
        is_known = header.next_offset <= known_offset or header.base_offset == known_offset
        fits = header.size <= end - at and header.base_offset > after_offset and is_known
        if not fits or implausible(header) is not None or not _is_true(fetch, header, at):
            continue
        if header.base_offset == successor or _goes_on(fetch, header, at + header.size, end):
            best = at, header
            break
        first = first or (at, header.base_offset)
        is_likely = _has_impossible_neighbour(fetch, header, at + header.size, end, known_offset)
        if is_likely and best is None:
            best = at, header
        if (is_likely or at == hop) and len(others) < MOST_DOUBTFUL:
            others.append((at, header))
    if best is None:
        return first
    place, chosen = next((other for other in others if _leaves_room(*other, *best)), best)
    return place, chosen.base_offset


def _leaves_room(at: int, header: BatchHeader, at_later: int, later: BatchHeader) -> bool:
    """Both can be true: the later one comes after it, or is only a batch that somebody had put into its records."""
    return header.next_offset <= later.base_offset or at <= at_later < at + header.size


def _goes_on(fetch: Fetch, header: BatchHeader, at: int, end: int) -> bool:
    """What is behind it, if there is anything, has the offset that comes next."""
    raw = fetch(HEADER_BYTES, at) if at < end else b""
    return read_header(raw).base_offset == header.next_offset if len(raw) == HEADER_BYTES else at == end


def _has_impossible_neighbour(fetch: Fetch, header: BatchHeader, at: int, end: int, known_offset: int) -> bool:
    raw = fetch(HEADER_BYTES, at) if at < end else b""
    if len(raw) < HEADER_BYTES:
        return False
    behind = read_header(raw)
    is_possible = header.next_offset <= behind.base_offset <= known_offset
    if is_possible or implausible(behind) is not None or behind.size > end - at:
        return False
    return crc32c(memoryview(fetch(behind.size, at))[CRC_FROM:]) == behind.crc


def _candidates(fetch: Fetch, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Every place behind `position` that has the magic byte where a batch would have it.

    First the one that the batch at `position` points to, because most damage leaves the length true, and searching byte
    by byte could meet a batch that somebody had put into a record.
    """
    damaged = fetch(HEADER_BYTES, position)
    if len(damaged) == HEADER_BYTES:
        hop = position + read_header(damaged).size
        if position < hop <= end - HEADER_BYTES:
            yield hop, read_header(fetch(HEADER_BYTES, hop))
    position += 1
    while end - position >= HEADER_BYTES:
        window = fetch(min(SEARCH_BYTES, end - position), position)
        last = len(window) - HEADER_BYTES
        if last < 0:
            return
        found = window.find(_MAGIC_BYTE, MAGIC_AT, last + MAGIC_AT + 1)
        while found >= 0:
            yield position + found - MAGIC_AT, read_header(window, found - MAGIC_AT)
            found = window.find(_MAGIC_BYTE, found + 1, last + MAGIC_AT + 1)
        position += last + 1


def _is_true(fetch: Fetch, header: BatchHeader, position: int) -> bool:
    data = fetch(header.size, position)
    return len(data) == header.size and scan(data, 0, len(data), -1, True)[2] is None


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
