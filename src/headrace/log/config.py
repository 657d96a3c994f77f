"""What a log can be told, and the small values that it answers with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from headrace.errors import HeadraceError

MAX_SEGMENT_BYTES = (1 << 31) - 1  # positions are u32, and one flush may still go beyond the segment's limit
FOREVER = -1
NEVER_MS = 1 << 62  # settings at or over this mean never, whatever protocol's largest number they came as
DAY_MS = 24 * 3600 * 1000

# kind, and what there is to know about it. Called on the thread that found it: at opening, that of
# `open_log`.
OnEvent = Callable[[str, dict[str, Any]], None]
Done = Callable[[HeadraceError | None], None]


def ignore_event(kind: str, details: dict[str, Any]) -> None:
    """For whoever does not want to know."""


def ignore_error(error: HeadraceError | None) -> None:
    """For whoever does not wait."""


class LogConfig(msgspec.Struct, frozen=True):
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    retention_ms: int = 7 * DAY_MS  # -1: for ever
    retention_bytes: int = FOREVER
    index_interval_bytes: int = 16 << 10  # a read walks half of this on average, and 64 Ki entries index 1 GiB
    tail_bytes: int = 4 << 20  # a consumer a second behind a busy producer still reads from memory
    producer_expiry_ms: int = DAY_MS
    is_compacted: bool = False  # the last record of each key stays
    min_dirty_ratio: float = 0.5  # so much of it uncompacted: time to begin
    min_compaction_lag_ms: int = 0  # younger records stay as they are
    max_compaction_lag_ms: int = NEVER_MS  # older ones are compacted whatever the ratio
    delete_retention_ms: int = DAY_MS  # how long tombstones stay after what they delete went
    flush_messages: int = NEVER_MS  # sync on our own after this many offsets,
    flush_ms: int = NEVER_MS  # or this long after a write; never: when asked, and at snapshots

    def __post_init__(self) -> None:
        if not 0 < self.segment_bytes <= MAX_SEGMENT_BYTES:
            raise ValueError(f"segments of {self.segment_bytes} bytes: 1 to {MAX_SEGMENT_BYTES} are possible")


class Staged(NamedTuple):
    base_offset: int
    last_offset: int
    duplicate: bool
    append_time_ms: int  # -1 when the batch carries its producer's timestamps


class StoreLimits(msgspec.Struct, frozen=True):
    snapshot_bytes: int = 64 << 20  # appended to a log since its last snapshot: the next tick asks for another
    open_files: int = 512  # half of the usual 1,024: sockets need the rest
    tail_bytes: int = 64 << 20  # memory of all tails together
    memory_topics_bytes: int = 1 << 30  # rings of topics without a disk, all together
    compaction_bytes: int = 128 << 20  # keys of the one log that is being compacted: 4 million at once
    index_bytes: int = 32 << 20  # indexes of sealed segments: 32 GiB of log at the default interval
