"""The end of a turn: all that was staged in it is written, one write for each partition, and who staged it is told.

Doors call `flush` when their turn ends. Who stages elsewhere asks for it with `flush_soon`.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.broker.partition import Partition
from headrace.errors import HeadraceError
from headrace.ports import Timers

OnEvent = Callable[[str, dict[str, object]], None]
Failed = dict[Partition, HeadraceError]
OnFlushed = Callable[[Failed | None], None]


class Turns:
    def __init__(self, timers: Timers, on_event: OnEvent) -> None:
        self.timers, self.on_event = timers, on_event
        self.dirty: list[Partition] = []
        self._flushing: list[OnFlushed] = []
        self._refused: dict[Partition, int] = {}

    @property
    def refusing(self) -> list[Partition]:
        """Those that take no batches; what was said of them in the log is why."""
        return list(self._refused)

    def flush(self) -> Failed | None:
        """Writes what was staged. Where that failed, nothing of it was kept: the answer names those partitions."""
        failed: Failed | None = None
        dirty = self.dirty
        if len(dirty) > 1:
            dirty.reverse()  # whoever follows several topics gets them in the order of the turn
        while dirty:
            # Taken out first: whatever goes wrong with one, the others stay in line.
            partition = dirty.pop()
            try:
                partition.flush()
            except HeadraceError as error:
                failed = failed or {}
                failed[partition] = error
        if failed or self._refused:
            self._tell_of_refused(failed or {})
        if self._flushing:
            flushing, self._flushing = self._flushing, []
            for done in flushing:
                done(failed)
        return failed

    def flush_soon(self, done: OnFlushed) -> None:
        """For who stages outside of a door's turn: `done` after the next flush, which comes by itself."""
        self._flushing.append(done)
        if len(self._flushing) == 1:
            self.timers.after(0, self.flush)

    def when_flushed(self, done: OnFlushed) -> None:
        """For who stages, and then flushes: `done` after that."""
        self._flushing.append(done)

    def _tell_of_refused(self, failed: Failed) -> None:
        """Once for each partition, until it is written to again."""
        for partition, error in failed.items():
            if partition not in self._refused:
                self._refused[partition] = partition.log.written_offset if partition.log is not None else -1
                self.on_event(
                    "produce.refused",
                    {"topic": partition.topic.name, "partition": partition.index, "error": str(error)},
                )
        for partition, end in list(self._refused.items()):
            if partition.log is None or partition.log.written_offset != end:
                del self._refused[partition]
