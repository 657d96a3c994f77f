"""A log: offsets given out in order, batches written to segment files, read back from memory or file.

Rules:
- all of it runs on the loop's thread; what waits for the disk is handed to the background and comes back by a
  callback;
- `written_offset` is the end of what is in the file, `synced_offset` of what was synced. A sync that failed
  fails the log: it refuses everything until it is opened anew, and thereby recovered.

A log is built up in layers: staging.py gives offsets, durability.py syncs, appending.py writes; here it is read,
looked after and closed. What can be done later is done elsewhere: snapshots in checkpoint.py, letting go of old
segments in retention.py, cutting the end in truncation.py, looking for a time in times.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from headrace.errors import DamagedRange, HeadraceError, OffsetOutOfRange, StorageFailed
from headrace.log import retention
from headrace.log.appending import Appending
from headrace.log.checkpoint import Checkpoint
from headrace.log.config import Done, LogConfig, OnEvent, Staged, ignore_error, ignore_event
from headrace.log.damage import Hole, save_holes
from headrace.log.index import Index
from headrace.log.memory import MemoryLog
from headrace.log.reader import FileRead, ReadResult, Wish, read_plain
from headrace.log.recovered import Recovered
from headrace.log.segment import Segment
from headrace.log.services import Services
from headrace.log.span import SPAN_BYTES, Span, doubt_around, find_span, look_ahead
from headrace.log.times import MaxTimeLookup, TimeLookup
from headrace.log.transactions import MANY_ABORTED, MAX_ABORTED
from headrace.log.truncation import truncate

__all__ = ["AnyLog", "Log", "LogConfig", "Staged"]

T = TypeVar("T")

ENOUGH_ABORTED = MANY_ABORTED * 7 // 8  # below it a warning is over
CLOSE_BYTES = 1 << 20  # less than this is walked over at the next opening rather than saved at closing


class Log(Appending):
    __slots__ = (
        "_are_holes_saved",
        "_blocked",
        "_closing",
        "_is_doubted",
        "_leaving",
        "_under_way",
        "_was_crowded",
        "leftovers",
        "recovery_s",
        "saved_start",
    )

    def __init__(
        self,
        services: Services,
        folder: str,
        log_id: bytes,
        config: LogConfig,
        found: Recovered,
        on_event: OnEvent = ignore_event,
    ) -> None:
        super().__init__(services, folder, log_id, config, found, on_event)
        self.saved_start = found.start_offset  # where a restart would let the log start
        self.leftovers: list[str] = []  # files to be removed once no snapshot names them
        self.recovery_s = 0.0  # what opening it took
        self._blocked: HeadraceError | None = None
        self._closing = False
        self._is_doubted = False
        self._are_holes_saved = True
        self._leaving = False  # to be released when nothing is under way
        self._under_way = 0  # pieces of work in the background that may write to its folder
        self._was_crowded = False
        self.checkpoint = Checkpoint(self)
        for segment in self.segments:
            segment.owner = self

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, up_to: int | None = None, at_least_one: bool = True
    ) -> ReadResult | FileRead:
        """Whole batches from the one that holds `offset`, as many as fit into `max_bytes`, none from `up_to` on.

        At least one, whatever its size, when asked for. A FileRead has to wait for the disk: `run` it off the loop.
        """
        end = self._readable_end(offset, up_to)
        if offset >= end:
            self._unread_bytes = 0
            return ReadResult([], 0, offset)
        if self.holes:
            hole = self.holes.at(offset)
            if hole is not None:
                raise DamagedRange(offset, hole.next_offset, hole.why)
            end = self.holes.next_start(offset, end)
        if offset >= self._tail.first_offset:
            self._unread_bytes = 0
            self.services.metrics.memory_reads += 1
            return self._tail.read(offset, max_bytes, end, at_least_one)
        return self._read_file(Wish(offset, max_bytes, end, at_least_one))

    def _read_file(self, wish: Wish) -> ReadResult | FileRead:
        place = bisect_right(self._bases, wish.offset) - 1
        segment, services = self.segments[place], self.services
        interval_bytes = self.config.index_interval_bytes
        if segment is not self.segments[-1]:
            services.indexes.touch(segment)
        self._settle_doubt()
        read: FileRead | None = None
        try:
            found = None
            if segment.index is not None and not services.patience.doubts(segment):
                handle = services.budget.open(segment)
                if not self.holes and not segment.has_gaps:
                    look_ahead(services.files, handle, segment, *self._stretch(segment.index, segment, wish))
                    found = read_plain(services.files, handle, segment, segment.index, wish, interval_bytes)
                if found is None:
                    read = self._file_read(segment, wish)
                    found = read.try_now(handle)
        except OSError:
            found = None
        if found is None:
            if segment.index is None:
                segment.doubt()
            else:
                doubt_around(segment, *self._stretch(segment.index, segment, wish))
            return read or self._file_read(segment, wish)
        services.metrics.file_reads += 1
        return found

    def _settle_doubt(self) -> None:
        """A read met what is not synced, and not as it was written: the sync tells."""
        if self._is_doubted:
            self._is_doubted = False
            self.sync_soon()

    def _stretch(self, index: Index, segment: Segment, wish: Wish) -> tuple[int, int]:
        """Where a read looks that finds what it expects."""
        _, position = index.find(max(0, wish.offset - segment.base))
        return position, position + wish.max_bytes + self.config.index_interval_bytes

    def span(self, offset: int, max_bytes: int, up_to: int | None = None) -> Span | None:
        """What `read` would give, as a place in a file whose bytes need not be looked at. None: read it."""
        if max_bytes < SPAN_BYTES or not self.start_offset <= offset < self._tail.first_offset:
            return None
        if self.failed is not None or self.holes:
            return None
        end = self.written_offset if up_to is None else min(up_to, self.written_offset)
        if offset >= end:
            return None
        segment = self.segments[bisect_right(self._bases, offset) - 1]
        if self.services.patience.doubts(segment):
            return None
        found = find_span(self.services, segment, offset, max_bytes, end)
        if found is not None:
            if segment is not self.segments[-1]:
                self.services.indexes.touch(segment)
            self.services.metrics.unseen_reads += 1
        return found

    def _file_read(self, segment: Segment, wish: Wish) -> FileRead:
        services, interval_bytes = self.services, self.config.index_interval_bytes
        return FileRead(
            services.files,
            segment,
            wish,
            self.holes,
            self._on_damage,
            interval_bytes,
            self._following,
            services.patience,
            services.metrics,
        )

    def judge(self, segment: Segment, offset: int) -> None:
        """Off the loop, of a batch that somebody met who was not reading: is it damaged? A read of the place writes the
        hole down, or fails while the disk may be away for a moment."""
        if self.holes.at(offset) is not None:
            return
        with suppress(DamagedRange):
            self._file_read(segment, Wish(offset, 1, segment.next_offset, True)).run()

    def _following(self, offset: int) -> Segment | None:
        """Called by reads, off the loop: the first segment from that offset on."""
        segments = self.segments.copy()
        place = bisect_left(segments, offset, key=lambda segment: segment.base)
        return segments[place] if place < len(segments) and segments[place].size else None

    def _on_damage(self, hole: Hole) -> None:
        """Called by reads, off the loop: holes are replaced whole, so a look from the loop sees the old or
        the new ones. Of a log that broke, or is closed, nothing is noted: its file may be another log's by now, and is
        not as long as somebody is at noting."""
        noting = self.services.noting
        noting.append(self.folder)
        try:
            if self.broken:
                raise self.failed or StorageFailed(f"the log in {self.folder} is closed")
            self._check_synced(hole)
            self._note_hole(hole)
        finally:
            noting.remove(self.folder)

    def _check_synced(self, hole: Hole) -> None:
        """What was never synced is no damage yet, whatever it reads as: its sync may have failed already, or is about
        to. The next one tells, and a log that fails is recovered."""
        unsynced = [segment for segment in self._unsynced.copy() if segment.base == hole.segment]
        if unsynced and hole.position >= unsynced[0].synced:
            self._is_doubted = True
            raise StorageFailed(
                f"{unsynced[0].path()} does not read as it was written ({hole.why}), and is not synced yet"
            )

    def _note_hole(self, hole: Hole) -> None:
        is_known = hole in self.holes
        if hole.offset >= self.written_offset or (is_known and self._are_holes_saved):  # cut off meanwhile; found again
            return
        if not is_known:
            self.holes = self.holes.with_hole(hole)
            told = {"folder": self.folder, "offset": hole.offset, "next_offset": hole.next_offset, "why": hole.why}
            self.on_event("log.damage", told)
        try:
            save_holes(self.services.files, self.folder, hole.segment, self.holes.of_segment(hole.segment))
            self._are_holes_saved = True
        except OSError as error:
            self._are_holes_saved = False
            self.on_event("log.not-saved", {"folder": self.folder, "why": str(error)})

    def timestamp_lookup(self, timestamp_ms: int) -> TimeLookup:
        """(offset, timestamp) of the first record at or after the time, or None: to be `run` off the loop."""
        self._settle_doubt()
        return TimeLookup(self, timestamp_ms)

    def max_timestamp_lookup(self) -> TimeLookup:
        """As `timestamp_lookup`, for the first record with the largest timestamp."""
        self._settle_doubt()
        return MaxTimeLookup(self)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Waits for the disk."""
        return self.timestamp_lookup(timestamp_ms).run()

    def max_timestamp(self) -> tuple[int, int] | None:
        """Waits for the disk."""
        return self.max_timestamp_lookup().run()

    # Later

    def configure(self, config: LogConfig) -> None:
        self.config = config
        self.producers.expiry_ms = config.producer_expiry_ms
        self._tail.limit_bytes = config.tail_bytes
        self._roll_at_ms = self._segment_end_ms()

    def maintain(self, now_ms: int) -> None:
        """What comes due with time; called now and then."""
        if self.failed is None:
            self.apply_retention(now_ms)
            self.producers.expire(now_ms)
            self._watch_aborted()
            if self.config.is_compacted:
                self.services.compactor.look(self, now_ms)
            self.services.sync.retry()
            if self._unsynced and now_ms - self.unsynced_since_ms >= self.config.flush_ms:
                self.sync_soon()

    def _watch_aborted(self) -> None:
        """Warns while something can be done; once, and again when it had become better."""
        places = self.producers.transactions.places
        is_crowded = places >= (ENOUGH_ABORTED if self._was_crowded else MANY_ABORTED)
        if is_crowded and not self._was_crowded:
            told = {"folder": self.folder, "transactions": places, "limit": MAX_ABORTED}
            self.on_event("log.many-aborted", told)
        self._was_crowded = is_crowded

    def apply_retention(self, now_ms: int) -> int:
        """Lets go of segments that are too old or too many; says how many."""
        return 0 if self.is_blocked else retention.apply(self, now_ms)

    def delete_records(self, before: int, done: Done = ignore_error) -> int:
        """Nothing before that offset can be read from now on; `done` when a restart would not bring it back.
        Gives the new start."""
        if self.is_blocked:
            raise self.failed or StorageFailed(f"the log in {self.folder} is busy")
        if before > self.written_offset:
            raise OffsetOutOfRange(before, self.start_offset, self.written_offset)
        if before > self.start_offset:
            retention.move_start(self, before)
        if before > self.saved_start:
            self.checkpoint.request(done)
        else:
            done(None)
        return self.start_offset

    def truncate(self, offset: int, done: Done = ignore_error) -> None:
        """Forgets everything from `offset` on, as a follower whose leader has another history; `done` when it is so.
        Until then the log refuses everything."""
        truncate(self, offset, done)

    def snapshot(self, done: Done = ignore_error) -> None:
        self.checkpoint.request(done)

    # While the end is cut off

    @property
    def is_blocked(self) -> bool:
        """It refuses everything for a moment, and goes on by itself."""
        return self._blocked is not None

    def block(self, word: HeadraceError) -> None:
        self._blocked = self.failed = word
        self.checkpoint.is_busy = True

    def unblock(self) -> None:
        if self.failed is self._blocked:
            self.failed = StorageFailed(f"the log in {self.folder} is closed") if self._closing else None
        self._blocked = None
        self.checkpoint.is_busy = False
        if self.checkpoint.is_due:
            self.checkpoint.start()

    # The end

    def close(self) -> None:
        """Nothing more goes in or out. What is written gets synced, in the background; then the files are
        closed."""
        if self._closing:
            return
        self._closing = True
        if self._staged:
            self._unstage()
        self.failed = self.failed or StorageFailed(f"the log in {self.folder} is closed")
        self.after_sync(self._synced_at_close)

    def _synced_at_close(self, error: HeadraceError | None) -> None:
        if error is None and (self.since_snapshot >= CLOSE_BYTES or self.is_blocked):
            self.checkpoint.request(lambda _: self._leave())
        else:
            self._leave()

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """In the background, what may write to the log's folder: until it has ended, nobody opens the log anew."""

        def back(result: T | None, error: BaseException | None) -> None:
            self._under_way -= 1
            done(result, error)
            if self._leaving:
                self._leave()

        self._under_way += 1
        self.services.background.run(work, back)

    def _leave(self) -> None:
        self._leaving = self._under_way > 0
        if not self._leaving:
            self.release()

    def release(self) -> None:
        """Closes the files as they are. Whoever still waits for a sync is told that it will not come."""
        self._closing = self.is_released = self.broken = True
        self._leaving = False
        if self.failed is None:
            self.failed = StorageFailed(f"the log in {self.folder} is closed")
        services = self.services
        services.sync.forget(self)
        services.compactor.forget(self)
        for segment in (*self.segments, *self._unsynced):  # some of these may be no longer part of the log
            segment.dirty = False
            services.budget.close(segment)
            services.indexes.forget(segment)
        self._tail.clear()
        if services.logs.get(self.folder) is self:
            del services.logs[self.folder]
        self._tell_all(self.failed)

    def fail(self, error: HeadraceError) -> None:
        super().fail(error)
        if self._closing and not self.in_round:
            self._leave()

    def restart_at(self, offset: int) -> None:
        """The end of the log is there now; for truncation, which has cut the files."""
        for _, done in [waiter for waiter in self._waiters if waiter[0] > offset]:
            done(StorageFailed(f"what was waited for was cut off at offset {offset}"))
        self._waiters = [waiter for waiter in self._waiters if waiter[0] <= offset]
        self.opened_at -= self.written_offset - offset  # what was appended stays counted
        self.written_offset = self.end_offset = self.synced_offset = offset
        self._settle()
        self._tail.clear(offset)


AnyLog = Log | MemoryLog
