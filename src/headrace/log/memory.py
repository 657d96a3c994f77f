"""A log without a disk: a bounded ring that loses its oldest batches. The same face as Log; synced is what is
written. The rings of a store share a budget: one that nobody used for long loses its oldest for others.

Offsets start from the clock in quarter microseconds: a new life of the topic never gives out an offset that
the last one gave, and they stay below 2^53 until the year 2041, so that JSON carries them exactly.
"""

from __future__ import annotations

from headrace.errors import HeadraceError, OffsetOutOfRange, StorageFailed
from headrace.log.config import Done, LogConfig, StoreLimits, ignore_error
from headrace.log.epochs import LeaderEpochs
from headrace.log.producers import Producers
from headrace.log.staging import Staging
from headrace.log.tail import ReadResult, RingBudget, Tail
from headrace.log.times import MemoryLookup
from headrace.ports import Clock

RING_BYTES = 64 << 20  # when the topic's retention.bytes does not say
OFFSETS_PER_MS = 4000


class MemoryLog(Staging):
    __slots__ = ("_budget", "_tail", "reads")

    def __init__(self, config: LogConfig, clock: Clock, budget: RingBudget | None = None) -> None:
        first = clock.now_ms() * OFFSETS_PER_MS
        super().__init__(config, first, first, LeaderEpochs(), Producers(config.producer_expiry_ms))
        self._budget = budget or RingBudget(StoreLimits().memory_topics_bytes)
        self._tail = Tail(self._ring_bytes(), self._budget, first)
        self._tail.on_loss = self._lose
        self.reads = 0  # that found something

    @property
    def synced_offset(self) -> int:
        return self.written_offset

    @property
    def size_bytes(self) -> int:
        return self._tail.size_bytes

    def flush(self) -> None:
        if not self._staged:
            return
        if self.failed is not None:
            self._unstage()
            raise self.failed
        self._tail.append(self._staged)
        self._written()
        self._lose()
        self.on_append()

    def _lose(self) -> None:
        if self._tail.first_offset > self.start_offset:
            self.start_offset = self._tail.first_offset
            self.epochs.cut_start(self.start_offset)
            self.cut_transactions(self.start_offset)

    def when_synced(self, end_offset: int, done: Done) -> None:
        done(self.failed)

    def after_sync(self, done: Done) -> None:
        done(self.failed)

    def sync_soon(self) -> None:
        """There is nothing to sync."""

    def sync_now(self) -> bool:
        return True

    def read(self, offset: int, max_bytes: int, *, up_to: int | None = None, at_least_one: bool = True) -> ReadResult:
        end = self._readable_end(offset, up_to)
        if offset >= end:
            return ReadResult([], 0, offset)
        self.reads += 1
        return self._tail.read(offset, max_bytes, end, at_least_one)

    def span(self, offset: int, max_bytes: int, up_to: int | None = None) -> None:
        """There is no file."""

    def timestamp_lookup(self, timestamp_ms: int) -> MemoryLookup:
        """(offset, timestamp) of the first record at or after the time, or None: to be `run` off the loop."""
        return MemoryLookup(self._tail.views(), self.start_offset, timestamp_ms)

    def max_timestamp_lookup(self) -> MemoryLookup:
        """As `timestamp_lookup`, for the first record with the largest timestamp."""
        return MemoryLookup(self._tail.views(), self.start_offset, None)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        return self.timestamp_lookup(timestamp_ms).run()

    def max_timestamp(self) -> tuple[int, int] | None:
        return self.max_timestamp_lookup().run()

    def configure(self, config: LogConfig) -> None:
        self.config = config
        self.producers.expiry_ms = config.producer_expiry_ms
        self._tail.limit_bytes = self._ring_bytes()
        self._tail.shrink()
        self._lose()

    def maintain(self, now_ms: int) -> None:
        self.producers.expire(now_ms)

    def apply_retention(self, now_ms: int) -> int:
        """The ring lets go by itself."""
        return 0

    def delete_records(self, before: int, done: Done = ignore_error) -> int:
        if before > self.written_offset:
            raise OffsetOutOfRange(before, self.start_offset, self.written_offset)
        if before > self.start_offset:
            self.start_offset = before
            self.epochs.cut_start(before)
            self.cut_transactions(before)
        done(None)
        return self.start_offset

    def snapshot(self, done: Done = ignore_error) -> None:
        done(None)

    def close(self) -> None:
        self.fail(StorageFailed("the log is closed"))

    def fail(self, error: HeadraceError) -> None:
        self._unstage()
        self.failed = error
        self._tail.clear()

    def _ring_bytes(self) -> int:
        wanted = self.config.retention_bytes
        return min(wanted if wanted >= 0 else RING_BYTES, self._budget.limit_bytes)
