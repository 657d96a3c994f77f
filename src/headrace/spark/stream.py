"""The stream that Spark reads in micro-batches. What each one holds is decided here, on the driver, as offsets; the
tasks only read what they are told.

- Offsets go forward. Where a log begins after, or ends before, what a batch was to read, something is lost: that is
  said (`loss`), never passed over, and stands in the query's progress beside the latest offsets.
- What a batch holds may have been decided by a run before this one. So it is compared with the broker before it is
  read, however it was decided: a topic that was made anew since has nothing for it.
- A partition that appears while the query runs is read from its first record.
- With Trigger.AvailableNow the ends that hold when the query starts are the query's ends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headrace.client.values import TopicPartition
from headrace.errors import HeadraceError
from headrace.spark import loss, reading
from headrace.spark.lookup import Lookup
from headrace.spark.offsets import Offsets, Place, place_of
from headrace.spark.options import LATEST, Bound, SourceOptions
from headrace.spark.plain import plain
from headrace.spark.planning import Range, available, limited, tasks
from headrace.spark.progress import publish
from headrace.spark.source import Share

if TYPE_CHECKING:
    import pyarrow as pa

Json = dict[str, Any]


@plain
class Refused(DataSourceStreamReader):
    """What is given instead of a reader that cannot be: Spark stumbles when it gets none, and tells of that."""

    def __init__(self, error: HeadraceError) -> None:
        self._error = error

    def initialOffset(self) -> Json:  # noqa: N802
        raise self._error

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error


@plain
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options, self._schema = options, schema
        self._lookup: Lookup | None = None
        self._initial: Json | None = None
        self._target: Place | None = None  # of Trigger.AvailableNow
        self._latest: Place | None = None
        self._published: Place | None = None  # as the group's positions
        self._told: set[str] = set()  # losses that were reported
        self._last_batch_s = -math.inf  # the first waits for nobody, as in Spark's own source

    def __getstate__(self) -> Json:
        """To the workers go the options only: connections stay here."""
        return {**self.__dict__, "_lookup": None}

    def _broker(self) -> Lookup:
        if self._lookup is None:
            self._lookup = Lookup(self._options)
        return self._lookup

    # Where the stream is

    def initialOffset(self) -> Json:  # noqa: N802
        broker = self._broker()
        topics = broker.topics()
        where = broker.partitions(topics)
        offsets = broker.resolve(self._options.start or Bound(word=LATEST), where, is_start=True)
        ids = {name: str(topic.topic_id) for name, topic in topics.items() if topic.topic_id}
        self._initial = self._place(offsets, ids).to_json()
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._now()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        before = place_of(start)
        self._publish(before)
        now = self._latest = self._target or self._now()
        starts = self._starts(before, now)
        ends = {where: max(starts[where], end) for where, end in now.offsets.items()}
        waiting = available(starts, ends)
        if not waiting or self._is_too_early(waiting, limit):
            return self._unless_back(start, before, starts, now)
        starts = self._kept(starts, ends)
        if isinstance(limit, ReadMaxRows):
            ends = limited(starts, ends, limit.max_rows)
        self._last_batch_s = time.monotonic()
        gone = {where: offset for where, offset in before.offsets.items() if where not in ends}
        began = before.offsets if start == self._initial else None
        return self._place({**gone, **ends}, {**before.ids, **now.ids}, began).to_json()

    def _unless_back(self, start: Json, before: Place, starts: Offsets, now: Place) -> Json:
        """Where the stream stands when there is nothing to read: where it stood, but that a log which was cut is read
        on from its end, or what it grows by would be passed over."""
        back = {where: offset for where, offset in starts.items() if offset < before.offsets.get(where, 0)}
        return self._place({**before.offsets, **back}, {**before.ids, **now.ids}).to_json() if back else start

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        return None if self._latest is None else replace(self._latest, lost=sorted(self._told)).to_json()

    def _is_too_early(self, waiting: int, limit: ReadLimit) -> bool:
        """Few records wait for company, but not for ever, and not when there will be no more."""
        least = self._options.min_offsets
        if least is None or isinstance(limit, ReadAllAvailable) or self._target is not None:
            return False
        return waiting < least and time.monotonic() - self._last_batch_s < self._options.max_delay_s

    def _now(self) -> Place:
        broker = self._broker()
        topics = broker.topics(may_miss=not self._options.is_loss_fatal)
        ids = {name: str(topic.topic_id) for name, topic in topics.items() if topic.topic_id}
        return self._place(broker.ends(broker.partitions(topics)), ids)

    def _place(self, offsets: Any, ids: Any, began: Any = None) -> Place:
        group = self._options.group
        servers = self._options.servers if group is not None else None
        return Place(offsets=offsets, ids=ids, began=began, group=group, servers=servers)

    def _starts(self, before: Place, now: Place) -> dict[TopicPartition, int]:
        """Where each partition that is there now is read on; says what is lost."""
        anew = {topic for topic, known in before.ids.items() if topic in now.ids and now.ids[topic] != known}
        for topic in sorted(anew):
            self._report(loss.made_anew(topic))
        for where in sorted(set(before.offsets) - set(now.offsets)):
            self._report(loss.vanished(*where))
        starts = {where: before.offsets.get(where, 0) if where.topic not in anew else 0 for where in now.offsets}
        behind = [where for where, start in starts.items() if start > now.offsets[where]]
        # What a run that read uncommitted records has read already is no loss, and not read again.
        for where, written in self._broker().written(behind).items():
            if starts[where] > written:
                self._report(loss.went_back(*where, starts[where], now.offsets[where]))
                starts[where] = now.offsets[where]
        return starts

    def _kept(self, starts: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
        """Behind what retention has taken of that, which is said now: when the batch is read, Spark has been told of
        its progress."""
        firsts = self._broker().starts([where for where, end in ends.items() if starts[where] < end])
        found = dict(starts)
        for where, first in firsts.items():
            found[where] = max(starts[where], min(first, ends[where]))
            if starts[where] < found[where]:
                self._report(loss.gone_before(*where, starts[where], found[where]))
        return found

    # What is read

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        if start == end:  # a batch without data, as queries with state have them
            return []
        before, after = place_of(start), place_of(end)
        begun = after.began if after.began is not None else before.offsets
        anew = {topic for topic, known in before.ids.items() if after.ids.get(topic, known) != known}
        ranges = []
        for where, stop in after.offsets.items():
            first = 0 if where.topic in anew else begun.get(where, 0)
            if first < stop:
                ranges.append(Range(*where, first, stop))
        ranges = self._checked(reading.unchanged(self._broker().client, ranges, after.ids, self._report))
        planned = tasks(ranges, self._options.rows_per_task, self._options.min_partitions, self._options.max_records)
        return [InputPartition(Share(one, after.ids)) for one in planned]

    def _checked(self, ranges: list[Range]) -> list[Range]:
        """Without what retention has taken and what a log that was cut has lost, which is said."""
        where = [TopicPartition(one.topic, one.partition) for one in ranges]
        firsts, ends = self._broker().starts(where), self._broker().ends(where)
        beyond = [at for at, one in zip(where, ranges, strict=True) if one.end > ends[at]]
        # What a run that read uncommitted records has planned is there: the tasks wait until it is decided.
        ends |= self._broker().written(beyond)
        found = []
        for at, one in zip(where, ranges, strict=True):
            if one.end > ends[at]:
                self._report(loss.went_back(*at, one.end, ends[at]))
            end = min(one.end, ends[at])
            first = min(firsts[at], end)
            if one.start < first:
                self._report(loss.gone_before(*at, one.start, first))
            found.append(Range(*at, max(one.start, first), end))
        return found

    def _report(self, words: str) -> None:
        """Once: what is gone is gone at the next look too."""
        if words not in self._told:
            loss.report(words, self._options.is_loss_fatal)
            self._told.add(words)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return reading.read(self._options, self._schema, *partition.value)

    def _publish(self, done: Place) -> None:
        """Spark asks for what comes next when all before that is done, also after the last batch of AvailableNow, of
        which it never says that it is committed."""
        if self._options.group is not None and done != self._published:
            publish(self._broker().client, replace(done, group=self._options.group))
            self._published = done

    def stop(self) -> None:
        if self._lookup is not None:
            self._lookup.close()
            self._lookup = None
