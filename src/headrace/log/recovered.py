"""What opening a log starts from, and what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.log.config import LogConfig, OnEvent
from headrace.log.damage import Holes
from headrace.log.epochs import LeaderEpochs
from headrace.log.format import Mark
from headrace.log.patient import Patience
from headrace.log.producers import Producers
from headrace.log.segment import Segment
from headrace.log.snapshot import SegmentState, Snapshot
from headrace.ports import Files


class Origin(NamedTuple):
    """Which log, and where. `parents` are the directories from its folder's own up to the store's root."""

    files: Files
    folder: str
    log_id: bytes
    parents: Sequence[str]
    on_event: OnEvent
    patience: Patience | None = None


class Recovered:
    """A log as it was found: what a Log starts from."""

    def __init__(self, config: LogConfig) -> None:
        self.segments: list[Segment] = []
        self.holes = Holes()
        self.epochs = LeaderEpochs()
        self.producers = Producers(config.producer_expiry_ms)
        self.generation = 0
        self.start_offset = 0
        self.next_offset = 0
        self.cleaned_offset = 0
        self.horizon_ms = -1
        self.is_sealed = False  # the last segment ends in a hole: appends go on in a new one
        self.scanned_bytes = 0  # since the snapshot
        self.mark: Mark | None = None  # the proof that this opening made

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.generation,
            self.start_offset,
            self.next_offset,
            [segment_state(segment) for segment in self.segments],
            self.epochs.entries(),
            self.producers.save(),
            transactions=self.producers.transactions.save(),
            cleaned_offset=self.cleaned_offset,
            horizon_ms=self.horizon_ms,
        )


def segment_state(segment: Segment) -> SegmentState:
    return SegmentState(
        segment.base,
        segment.next_offset,
        segment.size,
        segment.max_timestamp,
        segment.created_ms,
        segment.revision,
    )
