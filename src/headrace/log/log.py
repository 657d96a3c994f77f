"""A log: offsets given out in order, batches written to segment files, read back from memory or file.

Rules:
- all of it runs on the loop's thread; what waits for the disk is handed to the background and comes back by a
  callback;
- `stage` gives a batch its offsets, `flush` writes all that is staged with one system call. Only then can it
  be read. A flush that fails leaves nothing behind: no offset, no producer's sequence, no byte;
- `written_offset` is the end of what is in the file, `synced_offset` of what was synced. A sync that failed
  fails the log: it refuses everything until it is opened anew, and thereby recovered;
- no file and no folder exists before the first flush, so that ten thousand idle logs cost little;
- the newest batches stay in memory only while somebody reads at the end: a buffer that is free again at once is still
  in the processor's cache when the next batch comes.

What can be done later is done elsewhere: snapshots in checkpoint.py, letting go of old segments in
retention.py, cutting the end in truncation.py, looking for a time in times.py.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NoReturn

from headrace.errors import DamagedRange, DiskFull, HeadraceError, OffsetOutOfRange, StorageFailed
from headrace.log import retention
from headrace.log.checkpoint import Checkpoint
from headrace.log.config import Done, LogConfig, OnEvent, Staged, ignore_error, ignore_event
from headrace.log.damage import Hole, save_holes
from headrace.log.durability import Durability
from headrace.log.format import SEGMENT_HEADER_BYTES, SegmentHeader, encode_segment_header
from headrace.log.index import MAX_RELATIVE_OFFSET, Index
from headrace.log.memory import MemoryLog
from headrace.log.reader import FileRead, ReadResult, Wish
from headrace.log.recovered import Recovered
from headrace.log.segment import CLOSED, Segment
from headrace.log.services import Services
from headrace.log.tail import Tail
from headrace.log.times import TimeLookup
from headrace.log.truncation import truncate
from headrace.log.writing import FULL, MAX_BUFFERS, explain, write_all, write_rest

__all__ = ["AnyLog", "Log", "LogConfig", "Staged"]

SNAPSHOT_BYTES = 64 << 20  # appended since the last one: what recovery walks over at most, a fraction of a second
NOBODY_READS = 1 << 62
CLOSE_BYTES = 1 << 20  # less than this is walked over at the next opening rather than saved at closing


class Log(Durability):
    __slots__ = (
        "_bases",
        "_closing",
        "_folder_made",
        "_roll_at_ms",
        "_tail",
        "_unread_bytes",
        "checkpoint",
        "holes",
        "leftovers",
        "saved_start",
        "since_snapshot",
        "size_bytes",
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
        self._bases = [segment.base for segment in self.segments]
        self.size_bytes = sum(segment.size for segment in self.segments)
        self.holes = found.holes
        self.since_snapshot = found.scanned_bytes
        self.saved_start = found.start_offset  # where a restart would let the log start
        self.leftovers: list[str] = []  # files to be removed once no snapshot names them
        self.checkpoint = Checkpoint(self)
        self._tail = Tail(config.tail_bytes, services.tails, found.next_offset)
        self._unread_bytes = NOBODY_READS  # appended since somebody read at the end
        self._folder_made = bool(self.segments)
        self._closing = False
        self._roll_at_ms = self._segment_end_ms()
        for segment in self.segments:
            segment.owner = self
        if found.is_sealed:
            self.start_segment(found.next_offset, services.clock.now_ms())

    # Writing

    def flush(self) -> None:
        """Writes what is staged. DiskFull, StorageFailed: nothing of it was kept."""
        staged = self._staged
        if not staged:
            return
        if self.failed is not None:
            self._unstage()
            raise self.failed
        must_roll = self._must_roll()
        segment = self.start_segment(self.written_offset, self._staged_at_ms) if must_roll else self.segments[-1]
        position = self._write(segment)
        interval_bytes = self.config.index_interval_bytes
        for buffer, base_offset, _, max_timestamp in staged:
            segment.note(base_offset, position, max_timestamp, interval_bytes)
            position += len(buffer)
        self.size_bytes += position - segment.size
        self.since_snapshot += position - segment.size
        segment.size, segment.next_offset = position, self.end_offset
        if not segment.dirty:
            self._dirty(segment)
        if self._unread_bytes <= self.config.tail_bytes:
            self._unread_bytes += self._staged_bytes
            self._tail.append(staged)
        else:
            self._tail.skip_to(self.end_offset)
        self._written()
        if (must_roll and segment.base > self.start_offset) or self.since_snapshot >= SNAPSHOT_BYTES:
            self.checkpoint.request()
        elif self.checkpoint.is_due:
            self.checkpoint.start()
        if self.written_offset - self.synced_offset >= self.config.flush_messages:
            self.sync_soon()
        self.on_append()

    def _must_roll(self) -> bool:
        if not self.segments:
            return True
        segment = self.segments[-1]
        return segment.size > SEGMENT_HEADER_BYTES and (
            segment.size + self._staged_bytes > self.config.segment_bytes
            or self._staged_at_ms >= self._roll_at_ms
            or self.end_offset - segment.base > MAX_RELATIVE_OFFSET
        )

    def start_segment(self, base: int, now_ms: int) -> Segment:
        """The segment that goes on at `base`. Its file is made by the first write."""
        segment = Segment(self.folder, base, now_ms)
        segment.owner, segment.index, segment.indexed_at = self, Index(), SEGMENT_HEADER_BYTES
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

    def forget_segments(self, first: int, last: int) -> list[Segment]:
        """They are no longer part of the log. Their files stay, and are still synced: without them nothing after is."""
        gone = self.segments[first:last]
        del self.segments[first:last], self._bases[first:last]
        for segment in gone:
            segment.dropped = True
            self.size_bytes -= segment.size
            if not segment.dirty:
                self.services.budget.close(segment)
            self.services.indexes.forget(segment)
        self._roll_at_ms = self._segment_end_ms()
        return gone

    def _segment_end_ms(self) -> int:
        return self.segments[-1].created_ms + self.config.segment_ms if self.segments else 0

    def _write(self, segment: Segment) -> int:
        """One pwritev. Gives the position of the first batch."""
        buffers = [batch[0] for batch in self._staged]
        position, size = segment.size, self._staged_bytes
        if not position:
            buffers.insert(0, self._header(segment))
            size += SEGMENT_HEADER_BYTES
        handle = segment.handle
        if handle == CLOSED:
            handle = self._open(segment)
        segment.used = True
        files = self.services.files
        try:
            written = files.pwritev(handle, buffers, position) if len(buffers) <= MAX_BUFFERS else 0
            if written != size:
                write_rest(files, handle, buffers, position, written)
        except OSError as error:
            self._refuse(error, segment, position)
        return position or SEGMENT_HEADER_BYTES

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
            return handle
        except OSError as error:  # no byte was written: the log itself is not in doubt
            self._unstage()
            raise explain(error, f"opening {segment.path()}") from error

    def _refuse(self, error: OSError, segment: Segment, position: int) -> NoReturn:
        """A write failed: takes its bytes back. When the disk is only full, the log goes on."""
        self._unstage()
        reason = explain(error, f"writing to {segment.path()}")
        if error.errno in FULL:
            try:
                self._take_back(segment, position)
            except OSError as second:
                reason = StorageFailed(f"a refused write to {segment.path()} could not be taken back ({second})")
        if not isinstance(reason, DiskFull):
            self.fail(reason)
        raise reason from error

    def _take_back(self, segment: Segment, position: int) -> None:
        """Synced, so that no power loss brings a refused batch back."""
        files = self.services.files
        if files.size(segment.handle) > position:
            files.truncate(segment.handle, position)
            files.datasync(segment.handle)

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, up_to: int | None = None, at_least_one: bool = True
    ) -> ReadResult | FileRead:
        """Whole batches from the one that holds `offset`, as many as fit into `max_bytes`, none from `up_to` on.

        At least one, whatever its size, when asked for. A FileRead has to wait for the disk: `run` it off the loop.
        """
        if self.failed is not None:
            raise self.failed
        end = self.written_offset
        if offset > end or offset < self.start_offset:
            raise OffsetOutOfRange(offset, self.start_offset, end)
        if up_to is not None and up_to < end:
            end = up_to
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
            return self._tail.read(offset, max_bytes, end, at_least_one)
        return self._read_file(Wish(offset, max_bytes, end, at_least_one))

    def _read_file(self, wish: Wish) -> ReadResult | FileRead:
        segment = self.segments[bisect_right(self._bases, wish.offset) - 1]
        services = self.services
        read = FileRead(services.files, segment, wish, self.holes, self._on_damage, self.config.index_interval_bytes)
        if segment is not self.segments[-1]:
            services.indexes.touch(segment)
        if segment.index is None:
            return read
        try:
            handle = services.budget.open(segment)
        except OSError:
            return read
        return read.try_now(handle) or read

    def _on_damage(self, hole: Hole) -> None:
        """Called by reads, off the loop: holes are replaced whole, so a look from the loop sees the old or
        the new ones."""
        self.holes = self.holes.with_hole(hole)
        details = {
            "folder": self.folder,
            "offset": hole.offset,
            "next_offset": hole.next_offset,
            "why": hole.why,
        }
        self.on_event("log.damage", details)
        try:
            save_holes(self.services.files, self.folder, hole.segment, self.holes.of_segment(hole.segment))
        except OSError as error:  # it will be found again
            self.on_event("log.not-saved", {"folder": self.folder, "why": str(error)})

    def timestamp_lookup(self, timestamp_ms: int) -> TimeLookup:
        """To be `run` off the loop."""
        return TimeLookup(self, timestamp_ms)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record at or after the time. May wait for the disk."""
        return TimeLookup(self, timestamp_ms).run()

    def max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with the largest timestamp. May wait for the disk."""
        newest = max((segment.max_timestamp for segment in self.segments if segment.size), default=None)
        return None if newest is None else TimeLookup(self, newest).run()

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
            if self._unsynced and now_ms - self.unsynced_since_ms >= self.config.flush_ms:
                self.sync_soon()

    def apply_retention(self, now_ms: int) -> int:
        """Lets go of segments that are too old or too many; says how many."""
        return retention.apply(self, now_ms)

    def delete_records(self, before: int, done: Done = ignore_error) -> int:
        """Nothing before that offset can be read from now on; `done` when a restart would not bring it back.
        Gives the new start."""
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
        """Forgets everything from `offset` on, as a follower whose leader has another history."""
        truncate(self, offset, done)

    def snapshot(self, done: Done = ignore_error) -> None:
        self.checkpoint.request(done)

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
        if error is None and self.since_snapshot >= CLOSE_BYTES:
            self.checkpoint.request(lambda _: self.release())
        else:
            self.release()

    def release(self) -> None:
        """Closes the files as they are."""
        self._closing = self.is_released = True
        if self.failed is None:
            self.failed = StorageFailed(f"the log in {self.folder} is closed")
        services = self.services
        services.sync.forget(self)
        for segment in self.segments:
            segment.dirty = False
            services.budget.close(segment)
            services.indexes.forget(segment)
        self._tail.clear()
        if services.logs.get(self.folder) is self:
            del services.logs[self.folder]

    def fail(self, error: HeadraceError) -> None:
        super().fail(error)
        if self._closing and not self.in_round:
            self.release()

    def restart_at(self, offset: int) -> None:
        """The end of the log is there now; for truncation, which has cut the files."""
        for _, done in [waiter for waiter in self._waiters if waiter[0] > offset]:
            done(StorageFailed(f"what was waited for was cut off at offset {offset}"))
        self._waiters = [waiter for waiter in self._waiters if waiter[0] <= offset]
        self.written_offset = self.end_offset = self.synced_offset = offset
        self._tail.clear(offset)


AnyLog = Log | MemoryLog
