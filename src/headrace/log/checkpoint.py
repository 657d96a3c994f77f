"""When a log's snapshot is written: what it holds is caught on the loop, synced by the next round, written in
the background.

One is on its way at a time: an older state must never replace a newer one. Whoever asks meanwhile gets the
next. A snapshot that fails (a full disk) harms nothing; the next occasion tries again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.log.config import Done, ignore_error
from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.log.mending import save_index
from headrace.log.recovered import segment_state
from headrace.log.segment import Segment
from headrace.log.snapshot import Snapshot, encode_snapshot, save_snapshot
from headrace.log.writing import explain

if TYPE_CHECKING:
    from headrace.log.log import Log


class Checkpoint:
    __slots__ = ("_log", "_waiting", "is_busy", "is_due")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._waiting: list[Done] = []
        self.is_busy = False
        self.is_due = False

    def request(self, done: Done = ignore_error) -> None:
        """`done` when a snapshot of now, or later, is safe on disk."""
        self.is_due = True
        if done is not ignore_error:  # while a sync does not come back, nobody is remembered for nothing
            self._waiting.append(done)
        self.start()

    def start(self) -> None:
        """Not while batches are staged: their offsets and sequences may yet be taken back. The flush calls
        again."""
        log = self._log
        if self.is_busy or log.has_staged:
            return
        self.is_due, self.is_busy = False, True
        waiting, self._waiting = self._waiting, []
        log.snapshot_at = log.appended_bytes
        work = _Work(log)
        log.after_sync(lambda error: self._synced(work, waiting, error))

    def _synced(self, work: _Work, waiting: list[Done], error: HeadraceError | None) -> None:
        if error is not None or not work.data:
            self._finish(work, waiting, error)
        else:
            self._log.run(work.run, lambda _, failure: self._finish(work, waiting, failure))

    def _finish(self, work: _Work, waiting: list[Done], failure: BaseException | None) -> None:
        log = self._log
        self.is_busy = False
        error = None
        if failure is not None:
            error = explain(failure, f"saving a snapshot of {log.folder}")
            if not log.is_released:
                log.on_event("log.not-saved", {"folder": log.folder, "why": str(error)})
        elif work.data:
            work.done()
        for done in waiting:
            done(error)
        if self.is_due:
            self.start()


class _Work:
    """A log's state at one moment."""

    __slots__ = ("_indexes", "_leftovers", "_log", "_start_offset", "data")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._leftovers = list(log.leftovers)
        self._start_offset = log.start_offset
        segments = [segment for segment in log.segments if segment.size]
        self.data = b""  # nothing to be saved of a log that was never written to
        if segments:
            self.data = encode_snapshot(capture(log, segments))
        self._indexes = [
            (segment, segment.index.encode(segment.base, segment.size), segment.size)
            for segment in segments
            if segment.index is not None and not segment.index_saved and segment.size > SEGMENT_HEADER_BYTES
        ]

    def run(self) -> None:
        """Off the loop."""
        log = self._log
        files = log.services.files
        for segment, data, _ in self._indexes:
            if not segment.dropped:
                save_index(files, segment, data)
        save_snapshot(files, log.folder, self.data)
        for name in self._leftovers:
            if files.exists(f"{log.folder}/{name}"):
                files.remove(f"{log.folder}/{name}")

    def done(self) -> None:
        log = self._log
        for segment, _, size in self._indexes:
            segment.index_saved = segment.size == size
            if segment.index_saved and not segment.dropped and segment is not log.segments[-1]:
                log.services.indexes.touch(segment)
        log.saved_start = self._start_offset
        log.leftovers = [name for name in log.leftovers if name not in self._leftovers]


def capture(log: Log, segments: list[Segment]) -> Snapshot:
    return Snapshot(
        log.generation,
        log.start_offset,
        log.written_offset,
        [segment_state(segment) for segment in segments],
        log.epochs.entries(),
        log.producers.save(),
        transactions=log.producers.transactions.save(),
        cleaned_offset=log.cleaned_offset,
        horizon_ms=log.horizon_ms,
    )
