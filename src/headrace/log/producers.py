"""Idempotent producers: what each wrote last, so that a batch sent twice is kept once.

Kafka's rules. Of each producer the last five batches are remembered, because a client has at most five
requests on their way: a batch equal to one of them is a duplicate and gets its offsets. A lower epoch is
stale; a higher one starts at sequence 0; within one epoch sequences follow each other, and wrap to 0 after
2^31 - 1. A producer that is not known (first seen, expired, evicted) may start anywhere. Markers that end
transactions carry an epoch and no sequence.

States are tuples and replaced whole, so that undoing is putting the old one back.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import InvalidRecord, OutOfOrderSequence, StaleProducerEpoch
from headrace.records.header import CONTROL, MAX_SEQUENCE, BatchHeader

BATCHES_KEPT = 5  # max.in.flight.requests.per.connection of an idempotent producer
MAX_PRODUCERS = 100_000  # about 60 MB in one log; beyond it the longest idle ones go
EVICTED_AT_ONCE = MAX_PRODUCERS // 10  # so that the search for the idle ones is rare

# first sequence, last sequence, base offset, last offset, max timestamp
Batch = tuple[int, int, int, int, int]
# epoch, when last heard of (ms), batches from old to new
State = tuple[int, int, tuple[Batch, ...]]


class Producers:
    __slots__ = ("_states", "expiry_ms")

    def __init__(self, expiry_ms: int) -> None:
        self._states: dict[int, State] = {}
        self.expiry_ms = expiry_ms

    def __len__(self) -> int:
        return len(self._states)

    def check(self, header: BatchHeader, now_ms: int) -> Batch | None:
        """The batch of which this one is a duplicate; None for the next of its producer; else raises why
        not."""
        if header.base_sequence < 0 and not header.attributes & CONTROL:
            raise InvalidRecord(f"producer {header.producer_id} sent a batch with sequence {header.base_sequence}")
        state = self._states.get(header.producer_id)
        if state is None or now_ms - state[1] > self.expiry_ms:
            return None
        epoch, _, batches = state
        if header.producer_epoch != epoch:
            _check_epoch(header, epoch)
            return None
        if header.attributes & CONTROL:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in reversed(batches):
            if batch[0] == first and batch[1] == last:
                return batch
        if batches and first != (batches[-1][1] + 1) & MAX_SEQUENCE:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} sent sequence {first} after {batches[-1][1]}:"
                " a batch between them is missing"
            )
        return None

    def put(self, header: BatchHeader, base_offset: int, now_ms: int) -> State | None:
        """Remembers a batch that `check` passed; gives the state to go back to."""
        batch = (
            header.base_sequence,
            header.last_sequence,
            base_offset,
            base_offset + header.last_offset_delta,
            header.max_timestamp,
        )
        return self.note(header.producer_id, header.producer_epoch, header.attributes, batch, now_ms)

    def note(self, producer_id: int, epoch: int, attributes: int, batch: Batch, now_ms: int) -> State | None:
        """As `put`, without asking: what is in the log is true."""
        states = self._states
        old = states.get(producer_id)
        if old is not None and old[0] == epoch:
            batches = old[2]
        else:
            batches = ()
            if old is None and len(states) >= MAX_PRODUCERS:
                self._evict(now_ms)
        if not attributes & CONTROL:
            batches = (*batches[1 - BATCHES_KEPT :], batch)
        states[producer_id] = (epoch, now_ms, batches)
        return old

    def undo(self, producer_id: int, state: State | None) -> None:
        if state is None:
            self._states.pop(producer_id, None)
        else:
            self._states[producer_id] = state

    def expire(self, now_ms: int) -> None:
        gone = [key for key, state in self._states.items() if now_ms - state[1] > self.expiry_ms]
        for producer_id in gone:
            del self._states[producer_id]

    def cut_end(self, end_offset: int) -> None:
        """Forgets batches from `end_offset` on. A producer with none left is not known any more."""
        for producer_id, (epoch, heard_ms, batches) in list(self._states.items()):
            kept = tuple(batch for batch in batches if batch[3] < end_offset)
            if kept:
                self._states[producer_id] = (epoch, heard_ms, kept)
            elif batches:
                del self._states[producer_id]

    def save(self) -> list[tuple[int, State]]:
        return list(self._states.items())

    def load(self, saved: Iterable[tuple[int, State]]) -> None:
        self._states = dict(saved)

    def _evict(self, now_ms: int) -> None:
        self.expire(now_ms)
        if len(self._states) >= MAX_PRODUCERS:
            idle = sorted(self._states, key=lambda key: self._states[key][1])
            for producer_id in idle[:EVICTED_AT_ONCE]:
                del self._states[producer_id]


def _check_epoch(header: BatchHeader, epoch: int) -> None:
    who = f"producer {header.producer_id} with epoch {header.producer_epoch}"
    if header.producer_epoch < epoch:
        raise StaleProducerEpoch(f"{who} was fenced by epoch {epoch}")
    if header.base_sequence != 0 and not header.attributes & CONTROL:
        raise OutOfOrderSequence(f"{who} is new here and began with sequence {header.base_sequence} instead of 0")
