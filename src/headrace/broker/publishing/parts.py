"""A run of which not all can go into one batch: record by record, what becomes of each.

First goes what the topic has already (by its id), then what it does not take, then what comes twice, and the rest goes
into as many batches as it needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.broker.dedup.deduplication import Deduplication
from headrace.broker.dedup.topic_ids import TopicIds
from headrace.broker.partition import Partition
from headrace.broker.publishing.batching import refusal, split
from headrace.broker.publishing.published import Published
from headrace.errors import HeadraceError, StorageFailed
from headrace.records import codec
from headrace.records.record import Record


class Parts:
    def __init__(self, partition: Partition, records: Sequence[Record], now_ms: int) -> None:
        self._partition, self._records, self._now_ms = partition, records, now_ms
        self._left = list(range(len(records)))  # places of those that nothing is said of yet
        self._again: list[tuple[int, int]] = []  # places whose id is that of one before them in the run, and its place
        self.results: list[Published | HeadraceError] = [_NOT_STAGED] * len(records)
        self.duplicates = 0
        self.ends: dict[int, int] = {}  # partitions, and up to where they have to be written or synced for all of it

    def leave_out_known(self, names: Sequence[bytes | None], ids: TopicIds) -> None:
        """What the topic has already."""
        left, first_of = [], ids.window.first
        for place in self._left:
            name = names[place]
            first = first_of(name, self._now_ms) if name is not None else None
            if first is None:
                left.append(place)
            else:
                self.results[place] = Published(first.partition, first.offset, first.timestamp_ms, True)
                self._reaches(first.partition, first.offset + 1)
        self.duplicates += len(self._left) - len(left)
        self._left = left

    def refuse(self, stretches: Sequence[tuple[int, int]]) -> None:
        """What the topic does not take; a stretch (first, count) goes as a whole."""
        topic, refused = self._partition.topic, {}
        for place in self._left:
            error = refusal(self._records[place], topic, self._now_ms)
            if error is not None:
                refused[place] = error
        for first, count in stretches if refused else ():
            places = range(first, first + count)
            error = next((refused[place] for place in places if place in refused), None)
            if error is not None:
                refused.update(dict.fromkeys(places, error))
        for place, error in refused.items():
            self.results[place] = error
        self._left = [place for place in self._left if place not in refused]

    def leave_out_again(self, names: Sequence[bytes | None]) -> None:
        """What comes twice in the run."""
        left: list[int] = []
        seen: dict[bytes, int] = {}
        for place in self._left:
            name = names[place]
            if name is not None and name in seen:
                self._again.append((place, seen[name]))
                continue
            left.append(place)
            if name is not None:
                seen[name] = place
        self.duplicates += len(self._again)
        self._left = left

    def stage(self, options: codec.BatchOptions) -> list[tuple[int, int, int]]:
        """The rest. Which offsets it got: stretches of `left` (first, after the last) with the first one's offset."""
        partition, left = self._partition, self._left
        records = [self._records[place] for place in left]
        staged_parts = []
        for first, after in split(records, partition.topic.config.max_message_bytes):
            try:
                staged = partition.append_own(codec.encode(records[first:after], options), self._now_ms)
            except HeadraceError as error:
                for place in left[first:after]:
                    self.results[place] = error
                continue
            self._reaches(partition.index, staged.last_offset + 1)
            for offset, place in enumerate(left[first:after], staged.base_offset):
                time = self._now_ms if options.append_time_ms is not None else self._records[place].timestamp_ms
                self.results[place] = Published(partition.index, offset, time)
            staged_parts.append((first, after, staged.base_offset))
        for place, first_place in self._again:
            result = self.results[first_place]
            self.results[place] = result if isinstance(result, HeadraceError) else result._replace(duplicate=True)
        return staged_parts

    def note(
        self, parts: Sequence[tuple[int, int, int]], names: Sequence[bytes | None], ids: TopicIds, to: Deduplication
    ) -> None:
        """The ids of what was staged are known from now on."""
        for first, after, base_offset in parts:
            places = self._left[first:after]
            times = [result.timestamp_ms for place in places if isinstance(result := self.results[place], Published)]
            to.note(self._partition, ids, [names[place] for place in places], base_offset, times, self._now_ms)

    def _reaches(self, partition: int, end_offset: int) -> None:
        self.ends[partition] = max(self.ends.get(partition, -1), end_offset)


_NOT_STAGED = StorageFailed("the record was not staged; the log of this node says why")
