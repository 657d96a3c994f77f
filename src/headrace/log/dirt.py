"""What of a log may be compacted, and whether it is time.

From the log's start up to, and without, the first segment that is still written to, holds something of a transaction
under way, or has records younger than `min.compaction.lag.ms`. Of that, the part behind what was compacted before is
dirt. It is time when the dirt is a large enough share, when the oldest of it has waited for `max.compaction.lag.ms`, or
when tombstones that an earlier compaction had to keep may go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from headrace.log.config import LogConfig
from headrace.log.segment import Part, Segment

if TYPE_CHECKING:
    from headrace.log.log import Log


P = TypeVar("P", bound=Part)


class Dirt(NamedTuple, Generic[P]):
    segments: list[P]  # all that may be rewritten, from the log's start on
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_due: bool

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / max(1, self.clean_bytes + self.dirty_bytes)


def find_dirt(log: Log, now_ms: int) -> Dirt[Segment]:
    segments: list[Segment] = []
    for segment in log.segments[:-1]:
        if segment.dirty or segment.next_offset > log.stable_offset:
            break
        segments.append(segment)
    return judge(segments, log.cleaned_offset, log.horizon_ms, log.config, now_ms)


def judge(sealed: Sequence[P], cleaned: int, horizon_ms: int, config: LogConfig, now_ms: int) -> Dirt[P]:
    segments: list[P] = []
    for segment in sealed:
        newest_ms = segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms
        is_young = config.min_compaction_lag_ms > 0 and newest_ms + config.min_compaction_lag_ms > now_ms
        if is_young and segment.next_offset > cleaned:
            break
        segments.append(segment)
    dirty = [segment for segment in segments if segment.next_offset > cleaned]
    dirty_bytes = sum(segment.size for segment in dirty)
    clean_bytes = sum(segment.size for segment in segments) - dirty_bytes
    found = Dirt(segments, segments[-1].next_offset if segments else cleaned, clean_bytes, dirty_bytes, False)
    is_late = bool(dirty) and dirty[0].created_ms + config.max_compaction_lag_ms <= now_ms
    is_much = bool(dirty) and found.ratio >= config.min_dirty_ratio
    is_over = bool(segments) and 0 <= horizon_ms <= now_ms
    return found._replace(is_due=config.is_compacted and (is_late or is_much or is_over))
