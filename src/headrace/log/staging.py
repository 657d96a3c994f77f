"""Staging: a batch gets its place in the log before it is written, and loses it again when the write fails.

`stage` judges duplicates, assigns offset and leader epoch in place, and remembers how to undo that. Nothing
of it can be read before the flush. What is staged counts for the next batch's sequence, so several batches of
one producer may share a flush.
"""

from __future__ import annotations

from headrace.errors import HeadraceError, LimitReached, OffsetOutOfRange
from headrace.log.config import LogConfig, Staged
from headrace.log.epochs import LeaderEpochs
from headrace.log.index import MAX_RELATIVE_OFFSET
from headrace.log.producers import Before, Producers
from headrace.log.tail import StagedBatch
from headrace.log.transactions import Transactions
from headrace.ports import Buffer
from headrace.records.batch import BatchHeader, assign
from headrace.records.control import Marker
from headrace.records.header import LOG_APPEND_TIME

MAX_STAGED_BYTES = 1 << 30  # one flush goes into one segment, whose positions are u32,
MAX_STAGED_OFFSETS = MAX_RELATIVE_OFFSET  # and so are the offsets in its index
NO_APPEND_TIME = -1

_new = tuple.__new__  # a named tuple's own constructor takes twice as long, and this is once per batch


class Staging:
    __slots__ = (
        "_staged",
        "_staged_at_ms",
        "_staged_bytes",
        "_undo",
        "appended_batches",
        "appended_bytes",
        "config",
        "end_offset",
        "epochs",
        "failed",
        "on_append",
        "opened_at",
        "producers",
        "stable_offset",
        "start_offset",
        "written_offset",
    )

    def __init__(
        self,
        config: LogConfig,
        start_offset: int,
        next_offset: int,
        epochs: LeaderEpochs,
        producers: Producers,
    ) -> None:
        self.config = config
        self.start_offset = start_offset
        self.end_offset = self.written_offset = next_offset  # with what is staged; without it
        self.epochs, self.producers = epochs, producers
        self.failed: HeadraceError | None = None  # why nothing goes any more
        self.on_append = _nobody  # called after each flush
        self.appended_bytes = self.appended_batches = 0  # since it was opened
        self.opened_at = next_offset
        self._staged: list[StagedBatch] = []
        self._staged_bytes = 0
        self._staged_at_ms = 0
        self._undo: list[Before] = []
        # The end of what `read_committed` sees.
        self.stable_offset = max(start_offset, producers.transactions.stable_offset(next_offset))

    def stage(
        self,
        batch: Buffer,
        header: BatchHeader,
        now_ms: int,
        leader_epoch: int,
        copy: bool = False,
        is_own: bool = False,
        marker: Marker | None = None,
    ) -> Staged:
        """Takes one whole, checked batch. It becomes ours to patch and to keep, unless it is bytes or `copy`
        is asked for. `is_own`: this node wrote it, for a producer or to end its transaction with `marker`; no sequence
        is looked at."""
        if self.failed is not None:
            raise self.failed
        is_append_time = header.attributes & LOG_APPEND_TIME
        producer_id = header.producer_id
        if producer_id >= 0 and is_own:
            if marker is None:
                self.producers.check_epoch(header)
        elif producer_id >= 0:
            known = self.producers.check(header, now_ms)
            if known is not None:
                return Staged(known[2], known[3], True, known[4] if is_append_time else NO_APPEND_TIME)
        if self._staged_bytes + len(batch) > MAX_STAGED_BYTES:
            raise LimitReached(f"more than {MAX_STAGED_BYTES} bytes staged for one flush")
        base = self.end_offset
        last = base + header.last_offset_delta
        if last - self.written_offset > MAX_STAGED_OFFSETS:
            raise LimitReached(f"more than {MAX_STAGED_OFFSETS} offsets staged for one flush")
        if copy or (type(batch) is not bytearray and (type(batch) is not memoryview or batch.readonly)):
            batch = bytearray(batch)
        assign(batch, 0, base, leader_epoch)
        if leader_epoch > self.epochs.written:
            self.epochs.wrote(leader_epoch, base)
        if producer_id >= 0:
            self._undo.append(self.producers.put(header, base, now_ms, marker))
        self.end_offset = last + 1
        self._staged.append((batch, base, last + 1, header.max_timestamp))
        self._staged_bytes += len(batch)
        self._staged_at_ms = now_ms
        append_time_ms = header.max_timestamp if is_append_time else NO_APPEND_TIME
        return _new(Staged, (base, last, False, append_time_ms))

    @property
    def transactions(self) -> Transactions:
        return self.producers.transactions

    @property
    def has_staged(self) -> bool:
        return bool(self._staged)

    def _readable_end(self, offset: int, up_to: int | None) -> int:
        """Where a read from `offset` ends at the latest; raises why there can be none."""
        if self.failed is not None:
            raise self.failed
        end = self.written_offset
        if offset > end or offset < self.start_offset:
            raise OffsetOutOfRange(offset, self.start_offset, end)
        return end if up_to is None or up_to > end else up_to

    @property
    def appended_records(self) -> int:
        return self.written_offset - self.opened_at

    def _written(self) -> None:
        """What was staged can be read now."""
        self.appended_bytes += self._staged_bytes
        self.appended_batches += len(self._staged)
        self._staged = []
        self._staged_bytes = 0
        self._undo.clear()
        self.written_offset = self.stable_offset = self.end_offset
        if self.producers.transactions.ongoing:
            self._settle()

    def _settle(self) -> None:
        """Finds out what is stable. Only of what is written: what is staged may yet be taken back."""
        transactions = self.producers.transactions
        if transactions.ongoing:
            self.stable_offset = max(self.start_offset, transactions.stable_offset(self.written_offset))
        else:
            self.stable_offset = self.written_offset

    def cut_transactions(self, start_offset: int) -> None:
        """The log starts there now."""
        self.producers.transactions.cut_start(start_offset)
        self._settle()

    def _unstage(self) -> None:
        """As if nothing had been staged."""
        for before in reversed(self._undo):
            self.producers.undo(before)
        self._undo.clear()
        self._staged = []
        self._staged_bytes = 0
        self.end_offset = self.written_offset
        self.epochs.cut_end(self.written_offset)


def _nobody() -> None:
    """Nobody waits."""
