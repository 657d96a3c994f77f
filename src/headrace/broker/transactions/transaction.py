"""One transactional id: its producer, and the transaction that is under way, or how the last one ended."""

from __future__ import annotations

from enum import IntEnum

import msgspec

NONE = -1
MAX_EPOCH = (1 << 15) - 1  # only ever that of markers
LAST_EPOCH = MAX_EPOCH - 1  # the last one that a producer gets; it then gets another id
EPOCH_ON_EACH_END = 2  # the transaction version since which each end raises the epoch (KIP-890)

Place = tuple[str, int]  # topic, partition


class State(IntEnum):
    """Kafka's numbers, which are in the state topic."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def is_prepared(self) -> bool:
        """It is decided how the transaction ends, and not every partition knows."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def shown(self) -> str:
        """As Kafka's tools name it."""
        return _SHOWN[self]


_SHOWN = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
    State.DEAD: "Dead",
    State.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}


class Transaction(msgspec.Struct, frozen=True):
    id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[Place] = frozenset()
    started_ms: int = NONE
    updated_ms: int = NONE
    last_epoch: int = NONE  # the producer's own before this one, for a request that it repeats
    previous_producer_id: int = NONE
    next_producer_id: int = NONE  # what it goes on with once this transaction, its last, is ended
    version: int = 0

    @property
    def is_exhausted(self) -> bool:
        return self.epoch >= LAST_EPOCH

    @property
    def is_commit(self) -> bool:
        return self.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)

    @property
    def given(self) -> tuple[int, int]:
        """The id and epoch that its producer goes on with."""
        return (self.next_producer_id, 0) if self.next_producer_id != NONE else (self.producer_id, self.epoch)

    def deadline_ms(self) -> int:
        return self.started_ms + self.timeout_ms
