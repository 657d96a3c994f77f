"""Cutting the end of a log off, as a follower does whose leader has another history. Rare, and never on the loop's
time: what waits for the disk goes to the background, step by step.

A snapshot of the shorter log goes first, with the word that it is being cut and a new generation: from then
on a restart finishes the cut, and proofs of what was synced before prove nothing about what will be written
instead. Then the log forgets its end, so that nobody reads there; then the files are cut and synced, and the snapshot
written once more without that word.

Until that last snapshot is safe the log takes nothing and gives nothing: a batch that was written before it would be
cut off by a restart. Whoever comes meanwhile is told to come again. Snapshots, retention and closing wait.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from headrace.errors import HeadraceError, StorageFailed
from headrace.log.checkpoint import capture
from headrace.log.config import Done
from headrace.log.damage import Holes, cut_holes
from headrace.log.epochs import LeaderEpochs
from headrace.log.format import LOG, SEGMENT_HEADER_BYTES, SIDE_FILES
from headrace.log.indexing import load_index
from headrace.log.mending import cut_file
from headrace.log.reading_back import transactions_at
from headrace.log.recovered import segment_state
from headrace.log.segment import Segment
from headrace.log.snapshot import Snapshot, encode_snapshot, load_snapshot, save_snapshot
from headrace.log.transactions import SavedTransactions
from headrace.log.walk import Walk
from headrace.log.writing import explain
from headrace.ports import Files

if TYPE_CHECKING:
    from headrace.log.log import Log

T = TypeVar("T")


def truncate(log: Log, offset: int, done: Done) -> None:
    if log.failed is not None:
        done(log.failed)
    elif log.has_staged:
        raise ValueError("flush before the end is cut off")
    elif offset >= log.written_offset:
        done(None)
    elif log.checkpoint.is_busy:
        log.checkpoint.request(lambda _: truncate(log, offset, done))
    elif log.in_round or log.is_unsynced:
        log.after_sync(lambda error: truncate(log, offset, done) if error is None else done(error))
    else:
        _Cut(log, max(offset, log.start_offset), done).begin()


class _Cut:
    """One cut on its way. Methods that end in `ed` come back on the loop from the work before them."""

    def __init__(self, log: Log, offset: int, done: Done) -> None:
        self._log, self._offset, self._done = log, offset, done
        self._place = max(0, bisect_right([segment.base for segment in log.segments], offset) - 1)
        self._last = log.segments[self._place]
        self._position = 0  # where the last segment is cut
        self._keeps_last = True  # else not one whole batch of it is left
        self._gone: list[Segment] = []
        self._transactions: SavedTransactions | None = None  # read back, when they are not remembered that far

    def begin(self) -> None:
        log = self._log
        log.block(StorageFailed(f"the end of {log.folder} is being cut off at this moment: ask again"))
        self._work(self._look, self._found)

    def _look(self) -> tuple[int, int]:
        """Off the loop."""
        log = self._log
        boundary = _boundary(log, self._last, self._offset)
        if not log.transactions.can_cut_end(boundary[1]):
            self._transactions = transactions_at(log, log.segments[: self._place + 1], boundary[1])
        return boundary

    def _found(self, boundary: tuple[int, int] | None, error: BaseException | None) -> None:
        log = self._log
        if boundary is None:
            self._end(self._told(error))
            return
        self._position, offset = boundary
        self._offset = max(offset, log.start_offset)
        self._keeps_last = self._offset == offset
        states = [segment_state(segment) for segment in log.segments[: self._place]]
        if self._keeps_last:
            kept = segment_state(self._last)
            states.append(msgspec.structs.replace(kept, size=self._position, next_offset=self._offset))
        epochs, producers = LeaderEpochs(log.epochs.entries()), log.producers.copy()
        epochs.cut_end(self._offset)
        producers.cut_end(self._offset, self._transactions)
        cutting = Snapshot(
            log.generation + 1,
            log.start_offset,
            self._offset,
            states,
            epochs.entries(),
            producers.save(),
            cutting=True,
            transactions=producers.transactions.save(),
            cleaned_offset=min(log.cleaned_offset, self._offset),
            horizon_ms=log.horizon_ms,
        )
        data, files = encode_snapshot(cutting), log.services.files
        self._work(lambda: _save_word(files, log.folder, data), self._promised)

    def _promised(self, refusal: OSError | None, error: BaseException | None) -> None:
        """From here on the cut will be ended, now or by a restart."""
        if refusal is not None:
            self._end(self._told(refusal))
        elif error is not None:
            self._fail(error)
        else:
            self._forget()
            self._work(self._cut_files, self._is_cut)

    def _forget(self) -> None:
        log, last = self._log, self._last
        log.generation += 1
        if self._keeps_last:
            log.size_bytes -= last.size - self._position
            last.size = last.synced = self._position
            last.next_offset, last.reserved = self._offset, 0
            if last.index is not None:
                last.index = last.index.before(self._position)
                last.indexed_at, last.index_saved = last.index.positions[-1], False
        self._gone = log.forget_segments(self._place + self._keeps_last, len(log.segments))
        log.cleaned_offset = min(log.cleaned_offset, self._offset)
        log.epochs.cut_end(self._offset)
        log.producers.cut_end(self._offset, self._transactions)
        log.restart_at(self._offset)

    def _cut_files(self) -> Holes:
        """Off the loop."""
        log = self._log
        files = log.services.files
        if self._keeps_last:
            cut_file(files, self._last.path(), self._position)
        for segment in self._gone:
            _remove(files, segment)
        files.sync_directory(log.folder)
        return cut_holes(files, log.folder, log.holes, self._offset, self._last.base)

    def _is_cut(self, holes: Holes | None, error: BaseException | None) -> None:
        log = self._log
        if holes is None:
            self._fail(error)
            return
        log.holes = holes
        data, files = encode_snapshot(capture(log, log.segments)), log.services.files
        self._work(lambda: save_snapshot(files, log.folder, data), self._saved)

    def _saved(self, _: None, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
        else:
            self._end(None)

    # The ends

    def _work(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        def back(result: T | None, error: BaseException | None) -> None:
            if self._log.is_released:  # deleted, or the node stops: recovery ends what was begun
                self._end(self._log.failed)
            else:
                done(result, error)

        self._log.run(work, back)

    def _fail(self, error: BaseException | None) -> None:
        """It was begun and could not be ended."""
        refused = StorageFailed(str(self._told(error)))
        self._log.fail(refused)
        self._end(refused)

    def _end(self, refused: HeadraceError | None) -> None:
        self._log.unblock()
        self._done(refused)

    def _told(self, error: BaseException | None) -> HeadraceError:
        assert error is not None, "work gives a result or an error"
        return explain(error, f"cutting off the end of {self._log.folder}")


def _save_word(files: Files, folder: str, data: bytes) -> OSError | None:
    """Off the loop. The disk's refusal, if the old snapshot stands; raises when it is in doubt which one does."""
    try:
        save_snapshot(files, folder, data)
    except OSError as error:
        found = load_snapshot(files, folder)
        if found is not None and found.cutting:
            raise
        return error
    return None


def _remove(files: Files, segment: Segment) -> None:
    for ending in (LOG, *SIDE_FILES):
        if files.exists(segment.path(ending)):
            files.remove(segment.path(ending))


def _boundary(log: Log, segment: Segment, offset: int) -> tuple[int, int]:
    """Off the loop. Where the batch that holds `offset` starts: (position, its offset)."""
    if offset <= segment.base:
        return SEGMENT_HEADER_BYTES, segment.base
    files = log.services.files
    handle = files.open(segment.path())
    try:

        def fetch(size: int, position: int) -> bytes:
            return files.pread(handle, size, position)

        index = segment.index or load_index(files, segment, fetch, log.holes, log.config.index_interval_bytes)
        relative, start = index.find(offset - segment.base)
        start, expected = log.holes.skip(segment.base, start, offset) or (start, segment.base + relative)
        walk = Walk(fetch, start, segment.size, expected, check_crc=False, has_gaps=segment.has_gaps)
        for position, batch in walk.batches():
            if batch[3] > offset:
                return position, batch[2]
        return walk.position, walk.expected
    finally:
        files.close(handle)
