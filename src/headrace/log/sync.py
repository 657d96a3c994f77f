"""Group sync: many waiters, one `datasync`.

Logs ask; a round takes those that asked and syncs them off the loop, file by file and then the directories
with new names; while it runs, others ask and pile up for the next. Up to SYNC_LANES rounds run at once, and a
log is in one of them at most: were two syncs of one file to run together, the operating system would tell of
a failure only one of them.

A log begins a round with what it has written by then, and learns at its end that this is synced, or that it
failed. A failed sync is never tried again: the operating system may have dropped the bytes and call them
clean. A log that broke while it was in a round was not synced by it, whatever the disk says: it gets no mark, and
nobody is told that it went well. That a directory could not even be opened, for want of file handles, is no failed
sync: the log waits, and `retry`, called now and then, lets it ask again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.log.config import Done
from headrace.log.format import Mark
from headrace.log.journal import Journal
from headrace.log.metrics import LogMetrics
from headrace.log.segment import Segment
from headrace.log.writing import is_short_of_handles
from headrace.ports import Background, Clock, Files

SYNC_LANES = 4  # enough to keep a disk's queue busy, few enough that rounds stay full
ROUND_LOGS = 32  # so that a log's wait is bounded by some syncs of others, not by thousands


class SyncWork:
    """One log's part of a round."""

    __slots__ = ("after", "directories", "error", "log", "mark", "names", "next_offset", "refusal", "segments")

    def __init__(
        self,
        log: Syncable,
        segments: list[tuple[Segment, int]],
        directories: Sequence[str],
        names: int,
        next_offset: int,
        mark: Mark | None,
        after: list[Done],
    ) -> None:
        self.log = log
        self.segments = segments  # with the size that this round will have synced
        self.directories = directories
        self.names = names  # how many files had been made
        self.next_offset = next_offset
        self.mark = mark
        self.after = after  # to be told when this round has ended
        self.error: BaseException | None = None
        self.refusal: OSError | None = None  # the files are synced, their names not yet

    @property
    def went_well(self) -> bool:
        return self.error is None and self.refusal is None and not self.log.broken


class Syncable(Protocol):
    broken: bool

    def begin_sync(self) -> SyncWork | None: ...

    def end_sync(self, work: SyncWork) -> None: ...

    def sync_soon(self) -> None: ...


def sync_files(files: Files, work: SyncWork, done_directories: set[str]) -> None:
    """Off the loop. What goes wrong is kept with the work."""
    try:
        for segment, _ in work.segments:
            files.datasync(segment.handle)
        for directory in work.directories:
            if directory not in done_directories:
                files.sync_directory(directory)
                done_directories.add(directory)
    except OSError as error:
        if is_short_of_handles(error):
            work.refusal = error
        else:
            work.error = error


class GroupSync:
    __slots__ = (
        "_background",
        "_clock",
        "_files",
        "_journal",
        "_lanes",
        "_metrics",
        "_postponed",
        "_wanted",
        "is_ending",
    )

    def __init__(
        self, files: Files, background: Background, journal: Journal, clock: Clock, metrics: LogMetrics
    ) -> None:
        self._files, self._background, self._journal = files, background, journal
        self._clock, self._metrics = clock, metrics
        self._wanted: dict[Syncable, None] = {}
        self._postponed: dict[Syncable, None] = {}
        self._lanes = 0
        self.is_ending = False  # nobody will call `retry` any more

    @property
    def waiting(self) -> int:
        """Logs whose turn has not come."""
        return len(self._wanted) + len(self._postponed)

    @property
    def under_way(self) -> int:
        """Rounds."""
        return self._lanes

    def ask(self, log: Syncable) -> None:
        self._wanted[log] = None
        if self._lanes < SYNC_LANES:
            self._start()

    def forget(self, log: Syncable) -> None:
        self._wanted.pop(log, None)
        self._postponed.pop(log, None)

    def postpone(self, log: Syncable) -> None:
        self._postponed[log] = None

    def retry(self) -> None:
        """Now and then: who was short of file handles asks again."""
        if self._postponed:
            postponed, self._postponed = self._postponed, {}
            for log in postponed:
                log.sync_soon()

    def _start(self) -> None:
        while self._wanted and self._lanes < SYNC_LANES:
            works: list[SyncWork] = []
            while self._wanted and len(works) < ROUND_LOGS:
                log = next(iter(self._wanted))
                del self._wanted[log]
                work = log.begin_sync()
                if work is not None:
                    works.append(work)
            if works:
                self._lanes += 1
                self._run_round(works)

    def _run_round(self, works: list[SyncWork]) -> None:
        def done(took_s: float | None, error: BaseException | None) -> None:
            if took_s is not None:
                self._metrics.rounds.observe(took_s)
                self._metrics.round_logs.observe(len(works))
            self._done(works, error)

        self._background.run(lambda: self._run(works), done)

    def _run(self, works: list[SyncWork]) -> float:
        """How many seconds it took."""
        began = self._clock.monotonic()
        directories: set[str] = set()
        for work in works:
            sync_files(self._files, work, directories)
        return self._clock.monotonic() - began

    def _done(self, works: list[SyncWork], error: BaseException | None) -> None:
        self._lanes -= 1
        if error is not None:
            for work in works:
                work.error = work.error or error
        self._journal.append(work.mark for work in works if work.mark is not None and work.went_well)
        self._finish(works)
        self._start()

    def _finish(self, works: list[SyncWork]) -> None:
        """All are told, even when a waiter of one of them raises."""
        try:
            works[0].log.end_sync(works[0])
        finally:
            if works[1:]:
                self._finish(works[1:])
