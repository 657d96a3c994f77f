"""The writing end of a log: segments, and the flush that fills them.

- `flush` writes all that is staged with one system call. Only then can it be read. A flush that the disk
  refuses leaves nothing behind: no offset, no producer's sequence, no byte. It never waits for the disk;
- from the write on nothing may go wrong any more. Should it, what is in memory no longer says what is in the
  file: the log fails, and is opened anew;
- no file and no folder exists before the first flush, so that ten thousand idle logs cost little;
- the newest batches stay in memory only while somebody reads at the end: a buffer that is free again at once is still
  in the processor's cache when the next batch comes.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NoReturn

from headrace.errors import DiskFull, HeadraceError, StorageFailed
from headrace.log.config import LogConfig, OnEvent
from headrace.log.durability import Durability
from headrace.log.format import SEGMENT_HEADER_BYTES, SegmentHeader, encode_segment_header
from headrace.log.index import MAX_RELATIVE_OFFSET, Index
from headrace.log.recovered import Recovered
from headrace.log.segment import CLOSED, Segment
from headrace.log.services import Services
from headrace.log.tail import Tail
from headrace.log.writing import FULL, MAX_BUFFERS, explain, write_all, write_rest

if TYPE_CHECKING:
    from headrace.log.checkpoint import Checkpoint

NOBODY_READS = 1 << 62
SAMPLED_OFFSETS = 15  # a write at an offset with none of these bits is timed; looking at the clock is not for nothing

# Room is asked for ahead of the end: finding it block by block is a third of what a write costs. A quarter of what the
# segment holds, so that many small logs do not hold on to much; not for the smallest, which may never grow.
RESERVE_FROM_BYTES = 4 << 20
RESERVE_MAX_BYTES = 64 << 20


class Appending(Durability):
    __slots__ = (
        "_bases",
        "_folder_made",
        "_roll_at_ms",
        "_tail",
        "_unread_bytes",
        "checkpoint",
        "cleaned_offset",
        "holes",
        "horizon_ms",
        "size_bytes",
        "snapshot_at",
    )

    checkpoint: Checkpoint

    def __init__(
        self,
        services: Services,
        folder: str,
        log_id: bytes,
        config: LogConfig,
        found: Recovered,
        on_event: OnEvent,
    ) -> None:
        super().__init__(services, folder, log_id, config, found, on_event)
        self._bases = [segment.base for segment in self.segments]
        self.size_bytes = sum(segment.size for segment in self.segments)
        self.holes = found.holes
        self.cleaned_offset, self.horizon_ms = found.cleaned_offset, found.horizon_ms
        self.snapshot_at = -found.scanned_bytes  # how much had been appended when the last one was taken
        self._tail = Tail(config.tail_bytes, services.tails, found.next_offset)
        self._unread_bytes = NOBODY_READS  # appended since somebody read at the end
        self._folder_made = bool(self.segments)
        self._roll_at_ms = self._segment_end_ms()
        if self.segments:
            self.segments[-1].doubt()  # only what is written from now on is known
        if found.is_sealed:
            self.start_segment(found.next_offset, services.clock.now_ms())

    def flush(self) -> None:
        """Writes what is staged. DiskFull, StorageFailed: nothing of it was kept."""
        staged, config = self._staged, self.config
        if not staged:
            return
        if self.failed is not None:
            self._unstage()
            raise self.failed
        segments = self.segments
        must_roll = not segments or self._is_full(segments[-1])
        segment = self.start_segment(self.written_offset, self._staged_at_ms) if must_roll else segments[-1]
        try:
            began_at = position = self._write(segment)
            for buffer, base_offset, _, max_timestamp in staged:
                segment.note(base_offset, position, max_timestamp, config.index_interval_bytes)
                position += len(buffer)
            self.size_bytes += position - segment.size
            segment.size, segment.next_offset = position, self.end_offset
            if position > segment.reserved and position >= RESERVE_FROM_BYTES:
                self._reserve(segment)
            if not segment.dirty:
                self._dirty(segment)
            if self._unread_bytes <= config.tail_bytes:
                self._unread_bytes += position - began_at
                self._tail.append(staged)
            elif self._tail.size_bytes:
                self._tail.skip_to(self.end_offset)
            else:
                self._tail.first_offset = self.end_offset
            self._written()
        except HeadraceError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it was, it came in the midst of a write
            self._doubt(segment, error)
        if must_roll and segment.base > self.start_offset:
            self.checkpoint.request()
        elif self.checkpoint.is_due:
            self.checkpoint.start()
        overdue = self.services.overdue
        if self.appended_bytes - self.snapshot_at >= overdue.after_bytes:
            overdue.add(self)
        if self.written_offset - self.synced_offset >= config.flush_messages:
            self.sync_soon()
        self.on_append()

    @property
    def since_snapshot(self) -> int:
        """Bytes of batches: what a recovery would walk over."""
        return self.appended_bytes - self.snapshot_at

    def _is_full(self, segment: Segment) -> bool:
        """Or compacted, and therefore complete."""
        size = segment.size
        return segment.revision > 0 or (
            size > SEGMENT_HEADER_BYTES
            and (
                size + self._staged_bytes > self.config.segment_bytes
                or self._staged_at_ms >= self._roll_at_ms
                or self.end_offset - segment.base > MAX_RELATIVE_OFFSET
            )
        )

    def start_segment(self, base: int, now_ms: int) -> Segment:
        """The segment that goes on at `base`. Its file is made by the first write."""
        if self.segments:
            self.services.budget.release(self.segments[-1])
        segment = Segment(self.folder, base, now_ms)
        segment.owner, segment.index, segment.indexed_at = self, Index(), SEGMENT_HEADER_BYTES
        segment.true_from = 0
        self.segments.append(segment)
        self._bases.append(base)
        self._roll_at_ms = self._segment_end_ms()
        return segment

    def start_empty_segment(self, now_ms: int) -> bool:
        """So that all before it can be let go. False when the disk refuses, or batches are staged for the last one."""
        if self._staged:
            return False
        segment = self.segments[-1]
        if segment.size:
            segment = self.start_segment(self.written_offset, now_ms)
        try:
            write_all(self.services.files, self._open(segment), self._header(segment), 0)
        except (OSError, HeadraceError):  # it stays as one that was begun
            return False
        segment.size = SEGMENT_HEADER_BYTES
        self.size_bytes += segment.size
        self._dirty(segment)
        return True

    def forget_segments(self, first: int, last: int, instead: Segment | None = None) -> list[Segment]:
        """They are no longer part of the log. Their files stay, and are still synced: without them nothing after is."""
        gone = self.segments[first:last]
        self.segments[first:last] = [instead] if instead is not None else []  # one step: reads look on from threads
        self._bases[first:last] = [instead.base] if instead is not None else []
        for segment in gone:
            segment.dropped = True
            self.size_bytes -= segment.size
            if not segment.dirty:
                self.services.budget.close(segment)
            self.services.indexes.forget(segment)
            self.services.patience.let_go(segment.path())
        self._roll_at_ms = self._segment_end_ms()
        return gone

    def replace_segments(self, old: list[Segment], made: Segment) -> bool:
        """A compacted segment takes the place of those that it was made from. False: they are not what they were."""
        place = bisect_left(self._bases, old[0].base)
        if self.segments[place : place + len(old)] != old or place + len(old) == len(self.segments):
            return False
        made.owner = self
        for segment in old:  # first: who finds one dropped looks for its successor
            segment.successor = made
        self.forget_segments(place, place + len(old), made)
        self.size_bytes += made.size
        if self._tail.first_offset < made.next_offset:  # what went must not be read from memory either
            self._tail.clear(self.written_offset)
        self.services.indexes.touch(made)
        return True

    def _segment_end_ms(self) -> int:
        return self.segments[-1].created_ms + self.config.segment_ms if self.segments else 0

    def _write(self, segment: Segment) -> int:
        """One pwritev. Gives the position of the first batch."""
        staged, position, size = self._staged, segment.size, self._staged_bytes
        buffers = [staged[0][0]] if len(staged) == 1 else [batch[0] for batch in staged]
        if not position:
            buffers.insert(0, self._header(segment))
            size += SEGMENT_HEADER_BYTES
        handle = segment.handle
        if handle == CLOSED:
            handle = self._open(segment)
        segment.used = True
        services = self.services
        files = services.files
        is_timed = not self.written_offset & SAMPLED_OFFSETS
        began = services.clock.monotonic() if is_timed else 0.0
        try:
            written = files.pwritev(handle, buffers, position) if len(buffers) <= MAX_BUFFERS else 0
            if written != size:
                write_rest(files, handle, buffers, position, written)
        except OSError as error:
            self._refuse(error, segment, position)
        if is_timed:
            services.metrics.writes.observe(services.clock.monotonic() - began)
        return position or SEGMENT_HEADER_BYTES

    def _reserve(self, segment: Segment) -> None:
        size = segment.size
        room = min(size // 4, RESERVE_MAX_BYTES, max(self.config.segment_bytes - size, 0))
        had = room and self.services.budget.reserve(segment, room)
        segment.reserved = size + (room if had else RESERVE_MAX_BYTES)  # where it cannot be had: asked again by then

    def _header(self, segment: Segment) -> bytes:
        return encode_segment_header(SegmentHeader(segment.base, segment.created_ms, self.log_id))

    def _open(self, segment: Segment) -> int:
        files = self.services.files
        try:
            if not self._folder_made:
                files.make_directory(self.folder)
                self._folder_made = True
            is_new = segment.size == 0
            handle = self.services.budget.open(segment, create=is_new)
            if is_new:
                self._names += 1
                if files.size(handle):
                    files.truncate(handle, 0)
            elif segment.size >= RESERVE_FROM_BYTES:
                files.release(handle, segment.size)  # what a crash left reserved
            return handle
        except OSError as error:  # no byte was written: the log itself is not in doubt
            self._unstage()
            if error.errno in FULL:
                self._give_room_back()
            raise explain(error, f"opening {segment.path()}") from error

    def _refuse(self, error: OSError, segment: Segment, position: int) -> NoReturn:
        """A write failed: takes its bytes back. When the disk is only full, the log goes on."""
        self._unstage()
        reason = explain(error, f"writing to {segment.path()}")
        if error.errno in FULL:
            self._give_room_back()
            try:
                self._take_back(segment, position)
            except OSError as second:
                reason = StorageFailed(f"a refused write to {segment.path()} could not be taken back ({second})")
        if not isinstance(reason, DiskFull):
            self.fail(reason)
        raise reason from error

    def _give_room_back(self) -> None:
        """Of all logs."""
        for segment in self.services.budget.release_all():
            segment.reserved = segment.size + RESERVE_MAX_BYTES  # asked for again by then, as where it cannot be had

    def _doubt(self, segment: Segment, error: Exception) -> NoReturn:
        """Bytes may be in the file that nobody knows of: opening it anew finds out."""
        self._unstage()
        reason = StorageFailed(f"{segment.path()} is in doubt after a write ({error!r}): open the log again to recover")
        self.fail(reason)
        raise reason from error

    def _take_back(self, segment: Segment, position: int) -> None:
        """The cut is synced by a round, as all else: a sync from here would block the loop, and could take a failure
        away from a round that is at this file. Until then a power loss may bring the bytes back, and recovery judges
        them as it judges whatever was written and not acknowledged."""
        files = self.services.files
        if files.size(segment.handle) > position:
            files.truncate(segment.handle, position)
            self._dirty(segment)
            segment.recut = True
