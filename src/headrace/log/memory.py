"""A log without a disk: a bounded ring that loses its oldest batches. The same face as Log; synced is what is
written.

Offsets start from the clock in quarter microseconds: a new life of the topic never gives out an offset that
the last one gave, and they stay below 2^53 until the year 2041, so that JSON carries them exactly.
"""

from __future__ import annotations

from headrace.errors import HeadraceError, OffsetOutOfRange, StorageFailed
from headrace.log.config import Done, LogConfig, ignore_error
from headrace.log.epochs import LeaderEpochs
from headrace.log.producers import Producers
from headrace.log.staging import Staging
from headrace.log.tail import ReadResult, Tail, TailBudget
from headrace.log.times import first_record
from headrace.ports import Clock
from headrace.records.kernel import scan

RING_BYTES = 64 << 20  # when the topic's retention.bytes does not say
OFFSETS_PER_MS = 4000


class MemoryLog(Staging):
    __slots__ = ("_tail",)

    def __init__(self, config: LogConfig, clock: Clock) -> None:
        first = clock.now_ms() * OFFSETS_PER_MS
        super().__init__(config, first, first, LeaderEpochs(), Producers(config.producer_expiry_ms))
        self._tail = Tail(_ring_bytes(config), TailBudget(1 << 62), first)

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

    def when_synced(self, end_offset: int, done: Done) -> None:
        done(self.failed)

    def after_sync(self, done: Done) -> None:
        done(self.failed)

    def sync_soon(self) -> None:
        """There is nothing to sync."""

    def sync_now(self) -> bool:
        return True

    def read(self, offset: int, max_bytes: int, *, up_to: int | None = None, at_least_one: bool = True) -> ReadResult:
        if self.failed is not None:
            raise self.failed
        end = self.written_offset
        if offset > end or offset < self.start_offset:
            raise OffsetOutOfRange(offset, self.start_offset, end)
        if up_to is not None and up_to < end:
            end = up_to
        if offset >= end:
            return ReadResult([], 0, offset)
        return self._tail.read(offset, max_bytes, end, at_least_one)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        for view in self._tail.views():
            for position, size, _, next_offset, max_timestamp, *_ in scan(view, 0, len(view), -1, False)[0]:
                if max_timestamp >= timestamp_ms and next_offset > self.start_offset:
                    found = first_record(view[position : position + size], timestamp_ms, self.start_offset)
                    if found is not None:
                        return found
        return None

    def max_timestamp(self) -> tuple[int, int] | None:
        times = [batch[4] for view in self._tail.views() for batch in scan(view, 0, len(view), -1, False)[0]]
        return self.offset_for_timestamp(max(times)) if times else None

    def configure(self, config: LogConfig) -> None:
        self.config = config
        self.producers.expiry_ms = config.producer_expiry_ms
        self._tail.limit_bytes = _ring_bytes(config)

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


def _ring_bytes(config: LogConfig) -> int:
    return config.retention_bytes if config.retention_bytes >= 0 else RING_BYTES
