"""Reading from segment files: whole batches, found by the index, checked before they leave.

A FileRead is one read that the memory could not answer. It is tried at once, with what the operating system
has in memory; when that would have to wait for the disk, it is handed to the caller, to `run` off the loop.
Run, it opens the file for itself, so that closing, eviction and retention may go on meanwhile; a file that is
gone by then was let go by retention.

In a compacted segment the offset that is asked for may have no batch any more: the next one answers, in the next
segment if need be. A segment that was compacted while a read was on its way hands it on to its successor.

Batches that come from a file have their checksums and the order of their offsets checked: what the disk
changed since, or does not read any more (patient.py), is never sent, but recorded as a hole. The index is checked
too: where it points must be the batch that it names.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from headrace.errors import DamagedRange, HeadraceError, OffsetOutOfRange, StorageFailed
from headrace.log.after_damage import next_batch
from headrace.log.damage import Hole, Holes
from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.log.index import Index
from headrace.log.indexing import build_index, load_index
from headrace.log.metrics import LogMetrics
from headrace.log.overlap import last_in_doubt
from headrace.log.patient import Patience, PatientReader
from headrace.log.places import ReadBytes, header_at
from headrace.log.segment import Segment
from headrace.log.span import SPAN_BYTES
from headrace.log.tail import ReadResult
from headrace.log.walk import Fetch, Walk
from headrace.log.writing import explain
from headrace.ports import Buffer, Files
from headrace.records.batch import HEADER_BYTES, BatchHeader, read_header
from headrace.records.kernel import cut, pick, scan

TOO_SHORT = "the file is shorter than what was written to it"
NOT_A_HEADER = "a batch's header is not one"
OUT_OF_ORDER = "an offset is out of order"
UNREADABLE = "the disk does not read it"

__all__ = ["FileRead", "ReadResult", "Wish", "read_plain"]


class Wish(NamedTuple):
    offset: int
    max_bytes: int
    up_to: int  # no batch that starts here or later
    at_least_one: bool


class _Damaged(Exception):
    """The bytes at `position`, where the batch with `offset` should start, are not it. At `last` is the last batch that
    is not to be believed; it is the only one, unless two contradict each other."""

    def __init__(self, position: int, offset: int, why: str, last: int | None = None) -> None:
        super().__init__(why)
        self.position, self.offset, self.why = position, offset, why
        self.last = position if last is None else last


class _HoleBefore(Exception):
    """The index led into a hole that nobody knew of. What is asked for lies behind it."""

    def __init__(self, hole: Hole) -> None:
        super().__init__(hole.why)
        self.hole = hole


class _WrongIndex(Exception):
    """The index names a batch that is not there."""


class _Nothing(Exception):
    """No batch from the offset on, to the end of a compacted segment."""


class FileRead:
    __slots__ = (
        "_end",
        "_end_offset",
        "_files",
        "_following",
        "_holes",
        "_interval_bytes",
        "_is_now",
        "_metrics",
        "_on_damage",
        "_patience",
        "_segment",
        "_wish",
    )

    def __init__(
        self,
        files: Files,
        segment: Segment,
        wish: Wish,
        holes: Holes,
        on_damage: Callable[[Hole], None],
        interval_bytes: int,
        following: Callable[[int], Segment | None] = lambda _: None,
        patience: Patience | None = None,
        metrics: LogMetrics | None = None,
    ) -> None:
        """`following`: the segment to go on to where there are gaps, by the offset from which on."""
        self._following, self._patience, self._metrics = following, patience, metrics
        self._files, self._wish = files, wish
        self._holes, self._on_damage, self._interval_bytes = holes, on_damage, interval_bytes
        self._is_now = False  # on the loop
        self._go_to(segment)

    def _go_to(self, segment: Segment) -> None:
        """What is written to it later is not for this read, nor for its judgement."""
        self._segment, self._end_offset = segment, segment.next_offset
        self._end = segment.size

    def try_now(self, handle: int) -> ReadResult | None:
        """On the loop: only what needs no waiting. None also for whatever is not as it should be: `run` will
        judge it."""
        index = self._segment.index
        if index is None:
            return None

        def fetch(size: int, position: int) -> Buffer:
            data = self._files.pread_nowait(handle, size, position)
            if data is None or (len(data) < size and self._segment.has_gaps):
                raise BlockingIOError
            return data

        self._is_now = True
        try:
            found = self._read(fetch, index)
            return None if self._hole_behind(found) is not None else found
        except (_Damaged, _WrongIndex, _Nothing, OSError):
            return None
        finally:
            self._is_now = False

    def run(self) -> ReadResult:
        """Off the loop: waits for the disk. Raises what `Log.read` raises."""
        if self._metrics is not None:
            self._metrics.disk_reads += 1  # here, for who looks only whether it has to wait reads nothing
        while True:
            segment = self._segment
            try:
                found = self._run_one()
            except _Nothing:
                behind = self._following(segment.next_offset)
                if behind is not None:
                    self._go_to(behind)
                    continue
                end = min(segment.next_offset, self._wish.up_to)  # nobody need ask for these again
                found = ReadResult([], 0, max(self._wish.offset, end))
            except _HoleBefore as damage:
                self._holes = self._holes.with_hole(damage.hole)
                continue
            except (HeadraceError, FileNotFoundError):
                if segment.successor is None:
                    raise
                self._go_to(segment.successor)
                continue
            hole = self._hole_behind(found)
            if hole is not None:
                raise DamagedRange(self._wish.offset, hole.next_offset, hole.why)
            return found

    def _hole_behind(self, found: ReadResult) -> Hole | None:
        """The hole that a read ran into which found nothing: between the offset and it there is only a gap."""
        if found.size or not self._holes or not self._wish.at_least_one:
            return None
        return self._holes.at(self._wish.up_to)

    def _run_one(self) -> ReadResult:
        path = self._segment.path()
        try:
            handle = self._files.open(path)
        except FileNotFoundError:
            whole = _Damaged(SEGMENT_HEADER_BYTES, self._segment.base, "the file is missing")
            raise self._judge(whole, lambda _size, _position: b"") from None
        except OSError as error:
            raise explain(error, f"reading {path}") from error
        try:
            holes = self._holes.of_segment(self._segment.base)
            return self._run(PatientReader(self._files, handle, path, self._patience, holes))
        except OSError as error:
            raise StorageFailed(f"{path} does not read ({error}): check the disk") from error
        finally:
            self._files.close(handle)

    def _run(self, reader: PatientReader) -> ReadResult:
        segment, fetch = self._segment, reader.fetch
        index = segment.index or load_index(self._files, segment, fetch, self._holes, self._interval_bytes)
        try:
            try:
                result = self._read(fetch, index)
            except _WrongIndex:
                index = build_index(segment, fetch, self._holes, self._interval_bytes)
                result = self._read(fetch, index, is_true=True)
        except _Damaged as damage:
            reader.insist()
            damage = self._first_damage(damage, fetch, index)
            if reader.refusal_behind(damage.position) is not None:
                damage.why = UNREADABLE
            raise self._judge(damage, fetch) from None
        if not reader.has_refused:
            segment.index = index
        return result

    def _read(self, fetch: ReadBytes, index: Index, *, is_true: bool = False) -> ReadResult:
        """`is_true`: the index was made from the segment itself just now."""
        offset, max_bytes, up_to, _ = self._wish
        segment, end = self._segment, self._end
        position, expected, check_index = self._start(index)
        while True:
            if position >= end and segment.has_gaps:
                raise _Nothing
            data = fetch(min(max_bytes + self._interval_bytes, end - position), position)
            if len(data) < HEADER_BYTES:
                raise _Damaged(position, expected, TOO_SHORT)
            if check_index and read_header(data).base_offset != expected:
                raise _Damaged(position, expected, OUT_OF_ORDER) if is_true else _WrongIndex
            check_index = False
            begin, stop, _, damaged = cut(data, 0, len(data), offset, up_to)
            expected = self._follow(data, begin, position, expected)
            if stop > begin:
                return self._answer(fetch, data, position, begin, stop, expected)
            position += begin
            if damaged:
                raise _Damaged(position, expected, NOT_A_HEADER)
            if len(data) - begin < HEADER_BYTES:
                if position >= end and segment.has_gaps:
                    raise _Nothing
                if begin == 0 or position >= end:
                    raise _Damaged(position, expected, TOO_SHORT)
                continue
            header = read_header(data, begin)
            if not self._is_next(header.base_offset, expected):
                raise _Damaged(position, expected, OUT_OF_ORDER)
            if position + header.size > end:
                raise _Damaged(position, expected, TOO_SHORT)
            if header.next_offset > offset:
                return self._first(fetch, position, expected, header)
            position += header.size
            expected = header.next_offset

    def _start(self, index: Index) -> tuple[int, int, bool]:
        """Position and offset of the batch from which to look, and whether it is the index that says so."""
        segment, offset = self._segment, self._wish.offset
        relative, position = index.find(max(0, offset - segment.base))
        if self._holes and (behind := self._holes.skip(segment.base, position, offset)):
            return *behind, False
        first_may_be_gone = segment.has_gaps and position == SEGMENT_HEADER_BYTES
        return position, segment.base + relative, not first_may_be_gone

    def _is_next(self, offset: int, expected: int) -> bool:
        return offset == expected or (self._segment.has_gaps and expected < offset < self._segment.next_offset)

    def _last_in_doubt(self, fetch: ReadBytes, before: int, first: tuple[int, int, int], behind: int) -> int | None:
        segment = self._segment
        if not segment.has_gaps or any(hole.position == behind for hole in self._holes.of_segment(segment.base)):
            return None  # a hole that is known begins where the offsets before it end
        if self._is_now and self._end - behind >= HEADER_BYTES:
            following = header_at(fetch, behind, self._end)
            if following is None or following.base_offset < first[2]:
                raise BlockingIOError  # to find out may take long
        return last_in_doubt(fetch, self._end, self._end_offset, before, first, behind)

    def _follow(self, data: Buffer, until: int, position: int, expected: int) -> int:
        """The offset of the batch that starts at `until`, if each before it goes on from the one before. `data` was
        read at `position`; `expected` is the offset of the first."""
        for batch in scan(data, 0, until, -1, False)[0]:
            if not self._is_next(batch[2], expected):
                raise _Damaged(position + batch[0], expected, OUT_OF_ORDER)
            expected = batch[3]
        return expected

    def _first_damage(self, met: _Damaged, fetch: Fetch, index: Index) -> _Damaged:
        """What is read over on the way to an offset has only its headers looked at, and they may lie of what follows.
        So the way is gone once more, with all checksums: the first batch that is not true is the damaged one."""
        position, expected, _ = self._start(index)
        if position >= met.position:
            return met
        has_gaps = self._segment.has_gaps
        walk = Walk(fetch, position, met.position, expected, check_crc=True, has_gaps=has_gaps)
        first, before = (position, expected, expected), expected
        for at, batch in walk.batches():
            first, before = (at, batch[2], batch[3]), first[2]
        last = self._last_in_doubt(fetch, before, first, walk.position)
        if last is not None:
            return _Damaged(first[0], before, OUT_OF_ORDER, last)
        return met if walk.why is None else _Damaged(walk.position, walk.expected, walk.why)

    def _first(self, fetch: ReadBytes, position: int, expected: int, header: BatchHeader) -> ReadResult:
        """The batch that holds the offset did not fit into the window: it is larger than what was asked for."""
        if header.base_offset >= self._wish.up_to or not self._wish.at_least_one:
            first = position, header.base_offset, header.next_offset
            last = self._last_in_doubt(fetch, expected, first, position + header.size)
            if last is not None:
                raise _Damaged(position, expected, OUT_OF_ORDER, last)
            return ReadResult([], 0, self._wish.offset)
        data = fetch(header.size, position)
        if len(data) < header.size:
            raise _Damaged(position, expected, TOO_SHORT)
        return self._answer(fetch, data, position, 0, header.size, expected)

    def _answer(
        self, fetch: ReadBytes, data: Buffer, position: int, begin: int, stop: int, expected: int
    ) -> ReadResult:
        """What of `begin` to `stop` may leave: as many whole batches as were asked for, all of them true."""
        offset, max_bytes, up_to, at_least_one = self._wish
        if stop - begin > max_bytes:
            _, stop, _, _ = cut(data, begin, begin + max_bytes, offset, up_to)
            if stop == begin:
                if not at_least_one:
                    return ReadResult([], 0, offset)
                stop = begin + read_header(data, begin).size
        found, at, why = scan(data, begin, stop, -1, True)
        if not found or not self._is_next(found[0][2], expected):
            raise _Damaged(position + begin, expected, why or OUT_OF_ORDER)
        for number, (batch, after) in enumerate(pairwise(found), 1):
            if not self._is_next(after[2], batch[3]):
                at, found = after[0], found[:number]
                break
        first, before = (position + found[-1][0], *found[-1][2:4]), found[-2][3] if len(found) > 1 else expected
        last = self._last_in_doubt(fetch, before, first, position + at)
        if last is not None and len(found) == 1:
            raise _Damaged(first[0], before, OUT_OF_ORDER, last)
        if last is not None:
            at = found.pop()[0]
        return ReadResult([memoryview(data)[begin:at]], at - begin, found[-1][3])

    def _judge(self, damage: _Damaged, fetch: Fetch) -> HeadraceError | _HoleBefore:
        """Let go or cut off meanwhile, or damaged? Then finds out how far, and has it written down."""
        segment, offset = self._segment, self._wish.offset
        if segment.successor is not None:
            return StorageFailed(f"{segment.path()} was compacted")  # and the read goes on in its successor
        end_offset = segment.next_offset
        if segment.dropped:
            return OffsetOutOfRange(offset, end_offset, end_offset)
        if offset >= end_offset:  # cut off
            return OffsetOutOfRange(offset, segment.base, end_offset)
        end_offset = min(end_offset, self._end_offset)
        found = next_batch(fetch, damage.last, self._end, damage.offset, end_offset, segment.has_gaps)
        position, next_offset = found or (self._end, end_offset)
        hole = Hole(damage.offset, next_offset, segment.base, damage.position, position, damage.why)
        self._on_damage(hole)
        if self._patience is not None:
            self._patience.found(segment.path(), hole, self._end)
        return DamagedRange(offset, next_offset, damage.why) if next_offset > offset else _HoleBefore(hole)


def read_plain(
    files: Files, handle: int, segment: Segment, index: Index, wish: Wish, interval_bytes: int
) -> ReadResult | None:
    """On the loop: the read of a segment without gaps and holes, where all is as it should be. None: FileRead's."""
    offset, max_bytes, up_to, _ = wish
    relative, position = index.find(offset - segment.base)
    expected = segment.base + relative
    wanted = min(max_bytes if expected == offset else max_bytes + interval_bytes, segment.size - position)
    if max_bytes >= SPAN_BYTES and position + wanted < segment.size:
        wanted = index.boundary(position + max_bytes) - position or wanted  # so that the next one may be a span
    try:
        data = files.pread_nowait(handle, wanted, position)
    except OSError:
        return None
    found = pick(data, expected, offset, up_to, max_bytes) if data is not None else None
    if found is None or data is None:
        return None
    begin, end, next_offset = found
    segment.saw(position + begin, position + end)
    return ReadResult([memoryview(data)[begin:end]], end - begin, next_offset)
