"""What of a log is synced, and who waits for it.

- `written_offset` is the end of what is in the file, `synced_offset` of what was synced; the second follows
  the first in rounds;
- a round takes all that is written when it begins. Waiters are told in the order of their offsets;
- a round that had no file handles left is repeated, and whoever waits waits on;
- a sync that fails breaks the log: all waiters are told, and nothing goes any more until it is opened anew
  and thereby recovered.
"""

from __future__ import annotations

from bisect import bisect_right, insort

from headrace.errors import HeadraceError, StorageFailed
from headrace.log.config import Done, LogConfig, OnEvent
from headrace.log.format import Mark
from headrace.log.recovered import Recovered
from headrace.log.segment import Segment
from headrace.log.services import Services
from headrace.log.staging import Staging
from headrace.log.sync import SyncWork, sync_files
from headrace.log.writing import explain


class Durability(Staging):
    __slots__ = (
        "_after",
        "_is_postponed",
        "_names",
        "_names_synced",
        "_unsynced",
        "_waiters",
        "broken",
        "folder",
        "generation",
        "in_round",
        "is_released",
        "log_id",
        "on_event",
        "segments",
        "services",
        "synced_offset",
        "unsynced_since_ms",
    )

    def __init__(
        self,
        services: Services,
        folder: str,
        log_id: bytes,
        config: LogConfig,
        found: Recovered,
        on_event: OnEvent,
    ) -> None:
        super().__init__(config, found.start_offset, found.next_offset, found.epochs, found.producers)
        self.services, self.folder, self.log_id, self.on_event = services, folder, log_id, on_event
        self.segments = found.segments
        self.generation = found.generation
        self.synced_offset = found.next_offset
        self.broken = False  # what is in the file is in doubt: only opening it anew helps
        self.in_round = False
        self.is_released = False  # its files are closed
        self.unsynced_since_ms = 0
        self._is_postponed = False  # the last round ended for want of file handles
        self._unsynced: list[Segment] = []
        self._waiters: list[tuple[int, Done]] = []
        self._after: list[Done] = []
        self._names = self._names_synced = 0  # files made so far; of these, with synced names

    def when_synced(self, end_offset: int, done: Done) -> None:
        """`done(None)` once all before `end_offset` is synced, at once if it is; `done(error)` when that
        failed."""
        if self.synced_offset >= end_offset:
            done(None)
        elif self.broken:
            done(self.failed)
        elif end_offset > self.written_offset:
            raise ValueError(f"offset {end_offset} is not written yet: flush first")
        else:
            if not self._waiters or self._waiters[-1][0] <= end_offset:
                self._waiters.append((end_offset, done))
            else:
                insort(self._waiters, (end_offset, done), key=_end_offset)
            self.sync_soon()

    def after_sync(self, done: Done) -> None:
        """`done` once all that is written now, headers and names included, is synced. That it broke is told once no
        round is at its files any more: only then may they be opened anew."""
        if self.broken and not self.in_round:
            done(self.failed)
        elif self.is_unsynced or self.in_round:
            self._after.append(done)
            self.sync_soon()
        else:
            done(None)

    @property
    def is_unsynced(self) -> bool:
        return bool(self._unsynced) or self._names != self._names_synced

    def sync_soon(self) -> None:
        if not self.in_round:
            self.services.sync.ask(self)

    def sync_now(self) -> bool:
        """Blocks. False when a round is at it already, or the sync failed or was refused."""
        if self.in_round:
            return False
        work = self.begin_sync()
        if work is not None:
            sync_files(self.services.files, work, set())
            if work.went_well and work.mark is not None:
                self.services.journal.append([work.mark])
            self.end_sync(work)
        return not self.broken and not self._is_postponed

    def begin_sync(self) -> SyncWork | None:
        """What a round has to do. Nobody is told anything: this may be called in the midst of another log's write."""
        if self.broken or self.is_released or not (self.is_unsynced or self._waiters or self._after):
            return None
        after, self._after = self._after, []
        for segment in self._unsynced:
            segment.pins += 1
            segment.recut = False
        directories: list[str] = []
        if self._names != self._names_synced:
            directories = [self.folder, *self.services.unsynced_parents(self.folder)]
        self.in_round = True
        sizes = [(segment, segment.size) for segment in self._unsynced]
        return SyncWork(self, sizes, directories, self._names, self.written_offset, self._mark(), after)

    def _mark(self) -> Mark | None:
        for segment in reversed(self.segments):
            if segment.size:
                return Mark(self.log_id, self.generation, segment.base, segment.size, self.written_offset)
        return None

    def end_sync(self, work: SyncWork) -> None:
        self.in_round = False
        for segment, size in work.segments:
            segment.pins -= 1
            if work.error is None and not self.broken:
                segment.synced = max(segment.synced, size)
                segment.dirty = segment.recut or segment.synced < segment.size
            if self.is_released or (segment.dropped and not segment.dirty):
                self.services.budget.close(segment)
        error: HeadraceError | None = _sync_failed(self.folder, work.error) if work.error is not None else None
        if self.broken:  # meanwhile, by something else
            error = self.failed
        if error is not None:
            self._after[:0] = work.after
            self.fail(error)
            return
        self._unsynced = [segment for segment in self._unsynced if segment.dirty]
        if work.refusal is not None:
            self._after[:0] = work.after
            self._postpone(work.refusal)
            return
        self._is_postponed = False
        if work.names > self._names_synced:
            self._names_synced = work.names
            self.services.note_made(self.folder)
        self.synced_offset = max(self.synced_offset, work.next_offset)
        self.unsynced_since_ms = self._staged_at_ms
        place = bisect_right(self._waiters, self.synced_offset, key=_end_offset)
        ready, self._waiters = self._waiters[:place], self._waiters[place:]
        if self._waiters:  # the disk goes on while those that are ready are told
            self.sync_soon()
        for done in work.after:
            done(None)
        for _, done in ready:
            done(None)
        if self._after:
            self.sync_soon()

    def _postpone(self, refusal: OSError) -> None:
        """Out of file handles: all wait on, unless there is no later."""
        error = explain(refusal, f"syncing {self.folder}")
        if not self._is_postponed:
            self.on_event("log.not-synced", {"folder": self.folder, "why": str(error)})
        self._is_postponed = True
        if self.services.sync.is_ending:
            self._tell_all(self.failed or error)
        else:
            self.services.sync.postpone(self)

    def sync_quietly(self, segment: Segment) -> bool:
        """Blocks. One file, so that it may be closed; whoever waits is told later, by a round."""
        if self.broken or segment.pins:
            return False
        try:
            self.services.files.datasync(segment.handle)
        except OSError as error:
            reason = _sync_failed(self.folder, error)
            self.broken, self.failed = True, reason
            self.on_event("log.failed", {"folder": self.folder, "error": str(reason)})
            self.services.background.run(lambda: None, lambda _, __: self.fail(reason))
            return False
        segment.synced, segment.dirty = segment.size, False
        self._unsynced.remove(segment)
        return True

    def fail(self, error: HeadraceError) -> None:
        """Nothing goes any more. Whoever waits is told; of `after_sync`, when the round that is under way has ended."""
        if not self.broken:
            self.on_event("log.failed", {"folder": self.folder, "error": str(error)})
        self.broken, self.failed = True, error
        self.services.sync.forget(self)
        if self._staged:
            self._unstage()
        if self.in_round:
            self._tell_waiters(error)
        else:
            self._tell_all(error)

    def _tell_all(self, error: HeadraceError) -> None:
        after, self._after = self._after, []
        for done in after:
            done(error)
        self._tell_waiters(error)

    def _tell_waiters(self, error: HeadraceError) -> None:
        waiters, self._waiters = self._waiters, []
        for _, done in waiters:
            done(error)

    def _dirty(self, segment: Segment) -> None:
        """Has bytes that wait for a sync."""
        if not segment.dirty:
            if not self._unsynced:
                self.unsynced_since_ms = self._staged_at_ms
            segment.dirty = True
            if segment not in self._unsynced:
                self._unsynced.append(segment)


def _sync_failed(folder: str, error: BaseException) -> StorageFailed:
    return StorageFailed(f"a sync of {folder} failed ({error}): check the disk, then open the log again")


def _end_offset(waiter: tuple[int, Done]) -> int:
    return waiter[0]
