"""Idempotent producers: what each wrote last, so that a batch sent twice is kept once.

Kafka's rules. Of each producer the last five batches are remembered, because a client has at most five
requests on their way: a batch equal to one of them is a duplicate and gets its offsets. A lower epoch is
stale; a higher one starts at sequence 0; within one epoch sequences follow each other, and wrap to 0 after
2^31 - 1. A producer that is not known (first seen, expired, evicted) may start anywhere. Markers that end
transactions carry an epoch and no sequence, and so do the batches that a coordinator writes for a producer. After a
marker with a higher epoch the producer goes on with that epoch, at sequence 0.

Who is not known because its first batch could not be kept is awaited: its client has others on their way behind that
one, sends it again, and it has to come first.

Who has a transaction under way is never forgotten, however idle: its end has to find it.

States are tuples and replaced whole, so that undoing is putting the old one back.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NoReturn

from headrace.errors import (
    CoordinatorFenced,
    InvalidRecord,
    InvalidTransactionState,
    LimitReached,
    OutOfOrderSequence,
    StaleProducerEpoch,
)
from headrace.log.transactions import MAX_ABORTED, SavedTransactions, Transactions, Undo
from headrace.records.control import Marker
from headrace.records.header import CONTROL, MAX_SEQUENCE, TRANSACTIONAL, BatchHeader

BATCHES_KEPT = 5  # max.in.flight.requests.per.connection of an idempotent producer
MAX_PRODUCERS = 100_000  # about 60 MB in one log; beyond it the longest idle ones go
EVICTED_AT_ONCE = MAX_PRODUCERS // 10  # so that the search for the idle ones is rare
MAX_AWAITED = 10_000  # the oldest give way

# first sequence, last sequence, base offset, last offset, max timestamp
Batch = tuple[int, int, int, int, int]
# epoch, when last heard of (ms), batches from old to new
State = tuple[int, int, tuple[Batch, ...]]
NOTHING: State = (-1, 0, ())
# by producer id, its epoch and the first sequence
Awaited = dict[int, tuple[int, int]]
# of which producer, and what was true before
Before = tuple[int, State | None, Undo]


class Producers:
    __slots__ = ("_awaited", "_states", "expiry_ms", "transactions")

    def __init__(self, expiry_ms: int) -> None:
        self._states: dict[int, State] = {}
        self._awaited: Awaited = {}
        self.expiry_ms = expiry_ms
        self.transactions = Transactions()

    def __len__(self) -> int:
        return len(self._states)

    def state(self, producer_id: int) -> State | None:
        return self._states.get(producer_id)

    def check(self, header: BatchHeader, now_ms: int) -> Batch | None:
        """The batch of which this one is a duplicate; None for the next of its producer; else raises why
        not."""
        producer_id, first = header.producer_id, header.base_sequence
        if first < 0:
            raise InvalidRecord(f"producer {producer_id} sent a batch with sequence {first}")
        ongoing = self.transactions.ongoing
        state = self._states.get(producer_id)
        if state is not None and now_ms - state[1] > self.expiry_ms and producer_id not in ongoing:
            state = None
        if state is not None:
            epoch, _, batches = state
            if header.producer_epoch != epoch:
                _check_epoch(header, epoch)
            else:
                last = header.last_sequence
                for batch in reversed(batches):
                    if batch[0] == first and batch[1] == last:
                        return batch
                if first != ((batches[-1][1] + 1) & MAX_SEQUENCE if batches else 0):
                    _refuse_sequence(header, batches)
        else:
            if self._awaited:
                self._check_awaited(header)
            if len(ongoing) >= MAX_PRODUCERS:
                raise LimitReached(
                    f"{MAX_PRODUCERS} producers have transactions under way here: more cannot be remembered"
                )
        if header.attributes & TRANSACTIONAL:
            if producer_id not in ongoing and self.transactions.is_full:
                raise LimitReached(
                    f"{MAX_ABORTED} aborted transactions are remembered here, and there is no room for more:"
                    " shorten retention, or delete records"
                )
        elif ongoing and producer_id in ongoing:
            raise InvalidTransactionState(
                f"producer {producer_id} has a transaction under way, and this batch is not part of it"
            )
        return None

    def _check_awaited(self, header: BatchHeader) -> None:
        """Who is new may begin with any sequence, but not with what was sent behind a batch that the disk refused: that
        one will be sent again, and has to come first."""
        awaited = self._awaited.get(header.producer_id)
        if awaited is not None and awaited[0] == header.producer_epoch and awaited[1] != header.base_sequence:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} sent sequence {header.base_sequence}, but {awaited[1]} comes first: it"
                " was refused, and has to be sent again"
            )

    def check_epoch(self, header: BatchHeader) -> None:
        """For a batch that this node writes for a producer: all that has to be true is that it is not fenced."""
        state = self._states.get(header.producer_id)
        if state is not None and header.producer_epoch < state[0]:
            _check_epoch(header, state[0])

    def check_marker(self, header: BatchHeader, marker: Marker, is_bumped: bool = False) -> None:
        """Whether this may end the producer's transaction. `is_bumped`: the end of each raises the epoch, so one that
        is under way can only be ended by a higher one."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        state = self._states.get(producer_id)
        if state is not None:
            is_late = is_bumped and epoch == state[0] and producer_id in self.transactions.ongoing
            if epoch < state[0] or is_late:
                raise StaleProducerEpoch(
                    f"a marker with epoch {epoch} for producer {producer_id}, which has {state[0]}"
                )
        known = self.transactions.coordinators.get(producer_id)
        if known is not None and marker.coordinator_epoch < known:
            raise CoordinatorFenced(f"coordinator epoch {marker.coordinator_epoch} is over: {known} has written here")

    def put(self, header: BatchHeader, base_offset: int, now_ms: int, marker: Marker | None = None) -> Before:
        """Remembers a batch that a check has passed; gives what to go back to."""
        batch = (
            header.base_sequence,
            header.last_sequence,
            base_offset,
            base_offset + header.last_offset_delta,
            header.max_timestamp,
        )
        return self.note(header.producer_id, header.producer_epoch, header.attributes, batch, now_ms, marker)

    def note(
        self, producer_id: int, epoch: int, attributes: int, batch: Batch, now_ms: int, marker: Marker | None = None
    ) -> Before:
        """As `put`, without asking: what is in the log is true."""
        states = self._states
        old = states.get(producer_id)
        if old is not None and old[0] == epoch:
            batches = old[2]
        else:
            batches = ()
            if old is None:
                if len(states) >= MAX_PRODUCERS:
                    self._evict(now_ms)
                if self._awaited:
                    self._awaited.pop(producer_id, None)
        done: Undo = None
        if attributes & CONTROL:
            if marker is not None:
                done = self.transactions.end(producer_id, batch[2], marker.is_commit, marker.coordinator_epoch)
        else:
            if batch[0] >= 0:
                batches = (*batches[1 - BATCHES_KEPT :], batch)
            if attributes & TRANSACTIONAL:
                done = self.transactions.begin(producer_id, batch[2])
        states[producer_id] = (epoch, now_ms, batches)
        return producer_id, old, done

    def undo(self, before: Before) -> None:
        producer_id, state, done = before
        self.transactions.undo(producer_id, done)
        if state is None:
            epoch, _, batches = self._states.pop(producer_id, NOTHING)
            if batches:
                self._awaited[producer_id] = (epoch, batches[0][0])
                if len(self._awaited) > MAX_AWAITED:
                    del self._awaited[next(iter(self._awaited))]
        else:
            self._states[producer_id] = state

    def unkept(self, synced_offset: int) -> Awaited:
        """Of a log that failed: who is awaited, and who will be, should it be not known when the log is opened anew,
        because nothing of it was synced. Who had something synced is known then, or it was damage that took it; and
        what was synced is not sent again."""
        found = self._awaited.copy()
        for producer_id, (epoch, _, batches) in self._states.items():
            if batches and batches[0][2] >= synced_offset:
                found[producer_id] = (epoch, batches[0][0])
        return dict(islice(found.items(), max(0, len(found) - MAX_AWAITED), None))

    def await_unkept(self, unkept: Awaited) -> None:
        """In the log that was opened in its place."""
        self._awaited = {key: first for key, first in unkept.items() if key not in self._states}

    def expire(self, now_ms: int) -> None:
        ongoing = self.transactions.ongoing
        gone = [key for key, state in self._states.items() if now_ms - state[1] > self.expiry_ms and key not in ongoing]
        self._forget(gone)

    def cut_end(self, end_offset: int, transactions: SavedTransactions | None = None) -> None:
        """Forgets batches from `end_offset` on. A producer with none left is not known any more. `transactions`: as
        they were there, when they are not remembered so far back."""
        if transactions is None:
            self.transactions.cut_end(end_offset)
        else:
            self.transactions.load(transactions)
        for producer_id, (epoch, heard_ms, batches) in list(self._states.items()):
            kept = tuple(batch for batch in batches if batch[3] < end_offset)
            if kept:
                self._states[producer_id] = (epoch, heard_ms, kept)
            elif batches:
                del self._states[producer_id]

    def copy(self) -> Producers:
        other = Producers(self.expiry_ms)
        other.load(self.save(), self.transactions.save())
        return other

    def save(self) -> list[tuple[int, State]]:
        return list(self._states.items())

    def states(self) -> dict[int, State]:
        """A copy."""
        return self._states.copy()

    def load(self, saved: Iterable[tuple[int, State]], transactions: SavedTransactions | None = None) -> None:
        self._states = dict(saved)
        self.transactions.load(transactions)

    def _evict(self, now_ms: int) -> None:
        self.expire(now_ms)
        if len(self._states) >= MAX_PRODUCERS:
            ongoing = self.transactions.ongoing
            idle = sorted((key for key in self._states if key not in ongoing), key=lambda key: self._states[key][1])
            self._forget(idle[:EVICTED_AT_ONCE])

    def _forget(self, gone: list[int]) -> None:
        for producer_id in gone:
            del self._states[producer_id]
            self.transactions.coordinators.pop(producer_id, None)


def _check_epoch(header: BatchHeader, epoch: int) -> None:
    who = f"producer {header.producer_id} with epoch {header.producer_epoch}"
    if header.producer_epoch < epoch:
        raise StaleProducerEpoch(f"{who} was fenced by epoch {epoch}")
    if header.base_sequence != 0:
        raise OutOfOrderSequence(f"{who} is new here and began with sequence {header.base_sequence} instead of 0")


def _refuse_sequence(header: BatchHeader, batches: tuple[Batch, ...]) -> NoReturn:
    who, first = f"producer {header.producer_id}", header.base_sequence
    if not batches:
        raise OutOfOrderSequence(f"{who} began epoch {header.producer_epoch} with sequence {first} instead of 0")
    raise OutOfOrderSequence(f"{who} sent sequence {first} after {batches[-1][1]}: a batch between them is missing")
