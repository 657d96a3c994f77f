"""Who is compacted next: one log at a time, the one with the largest share of dirt first.

So the memory for keys is there once, however many logs there are. A log that could not be compacted (a full disk,
damage) is left alone for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.log.compaction import Compaction
from headrace.log.dirt import Dirt, find_dirt
from headrace.log.metrics import LogMetrics
from headrace.log.segment import Segment
from headrace.ports import Clock

if TYPE_CHECKING:
    from headrace.log.log import Log

AGAIN_MS = 60_000  # after a failure: by then somebody may have made room


class Compactor:
    __slots__ = ("_clock", "_metrics", "_not_before_ms", "_waiting", "memory_bytes", "running")

    def __init__(self, clock: Clock, metrics: LogMetrics, memory_bytes: int) -> None:
        self._clock, self._metrics, self.memory_bytes = clock, metrics, memory_bytes
        self._waiting: dict[Log, None] = {}
        self._not_before_ms: dict[str, int] = {}  # by folder
        self.running: Log | None = None

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def look(self, log: Log, now_ms: int) -> None:
        """Now and then, for each log: if it is time, it gets in line."""
        if log is self.running or log in self._waiting or now_ms < self._not_before_ms.get(log.folder, 0):
            return
        if find_dirt(log, now_ms).is_due:
            self._waiting[log] = None
            self._next()

    def forget(self, log: Log) -> None:
        """It is closed."""
        self._waiting.pop(log, None)
        self._not_before_ms.pop(log.folder, None)

    def _next(self) -> None:
        if self.running is not None:
            return
        now_ms = self._clock.now_ms()
        found = [(log, find_dirt(log, now_ms)) for log in self._waiting if log.failed is None]
        due = [(log, dirt) for log, dirt in found if dirt.is_due]
        self._waiting = {log: None for log, _ in due}
        if due:
            log, dirt = max(due, key=lambda pair: pair[1].ratio)
            del self._waiting[log]
            self._start(log, dirt, now_ms)

    def _start(self, log: Log, dirt: Dirt[Segment], now_ms: int) -> None:
        began = self._clock.monotonic()
        self.running = log

        def done(error: HeadraceError | None) -> None:
            self.running = None
            took_s = self._clock.monotonic() - began
            metrics = self._metrics
            metrics.compactions.observe(took_s)
            metrics.compacted_before_bytes += compaction.before_bytes
            metrics.compacted_after_bytes += compaction.after_bytes
            metrics.compacted_records += compaction.dropped
            if error is not None:
                self._not_before_ms[log.folder] = self._clock.now_ms() + AGAIN_MS
                if not log.is_released:
                    log.on_event("log.not-compacted", {"folder": log.folder, "why": str(error)})
            elif compaction.is_whole:
                log.on_event("log.compacted", _told(log, dirt, compaction, took_s))
            if not log.is_released and log.failed is None and error is None and log.cleaned_offset < dirt.end_offset:
                self._waiting[log] = None  # there were more keys than fit into memory, or something came between
            self._next()

        compaction = Compaction(log, dirt, now_ms, self.memory_bytes, done)
        compaction.begin()


def _told(log: Log, dirt: Dirt[Segment], compaction: Compaction, took_s: float) -> dict[str, object]:
    return {
        "folder": log.folder,
        "bytes_before": compaction.before_bytes,
        "bytes_after": compaction.after_bytes,
        "records_gone": compaction.dropped,
        "keys": compaction.keys,
        "dirty_ratio": round(dirt.ratio, 3),
        "seconds": round(took_s, 3),
        "clean_up_to": log.cleaned_offset,
    }
