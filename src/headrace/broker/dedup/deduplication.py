"""Deduplication by id: in a topic with a window, a record whose `id` header is known stores nothing.

- Each who publishes asks before it appends, and notes what it appended; what a flush then refuses is forgotten.
- Who publishes again is acknowledged when the first append has reached the level, never before.
- A producer's batch loses the records that are known. One of which nothing is left is not stored, unless its producer
  is idempotent: then it stays as an empty batch, so that the producer's sequence goes on.
- What all topics remember together is bounded: when it is too much, those that remember most forget half of it. So a
  topic that is flooded with ids costs the others none of theirs.
- Records of transactions are neither looked at nor noted: an id of a transaction that is aborted may come again, and
  transactional producers repeat nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.broker import opened
from headrace.broker.dedup.cutting import without
from headrace.broker.dedup.topic_ids import TopicIds
from headrace.broker.dedup.window import First, Window, id_of
from headrace.broker.partition import Partition
from headrace.broker.turns import Failed
from headrace.errors import HeadraceError, Unsettled
from headrace.log.config import Staged
from headrace.ports import Buffer
from headrace.records.batch import BatchHeader, read_header
from headrace.records.record import Record

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.topic import Topic

NO_OFFSET = -1
NO_APPEND_TIME = -1
MAX_ALL_IDS = 1_000_000  # of all topics: some 200 MB
CHECK_IDS = 10_000  # that come between one look at how many there are and the next


class Deduplication:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._unflushed: list[tuple[Window, Partition, list[bytes]]] = []
        self._unchecked = 0  # ids that came since the last look at how many there are
        self.duplicates = 0  # records that were not stored, since the start

    @property
    def remembered(self) -> int:
        """Ids, of all topics."""
        return sum(map(len, self._windows()))

    def of(self, topic: Topic) -> TopicIds:
        """The ids of a topic with a window."""
        ids, span_ms = topic.ids, topic.window_ms
        if ids is None or ids.window.span_ms < span_ms:  # a longer window looks further back
            ids = topic.ids = TopicIds(self._broker, topic)
        ids.window.span_ms = span_ms
        return ids

    def maintain(self, now_ms: int) -> None:
        """Now and then: what is too old goes."""
        for window in self._windows():
            window.age(now_ms)

    def came(self, count: int) -> None:
        """So many ids were noted."""
        self._unchecked += count
        if self._unchecked >= CHECK_IDS:
            self._unchecked = 0
            windows = sorted(self._windows(), key=len, reverse=True)
            over = sum(map(len, windows)) - MAX_ALL_IDS
            for window in windows:
                if over <= 0:
                    break
                over -= window.cut()

    async def ready(self, topic: Topic) -> None:
        """Waits until its ids have been read back, or cannot be: who appends then is told."""
        promise = self._broker.new_promise()

        def done(_: HeadraceError | None) -> None:
            if not promise.done():
                promise.set_result(None)

        self.of(topic).prepare(done)
        await promise

    def note(
        self,
        partition: Partition,
        ids: TopicIds,
        names: Sequence[bytes | None],
        first_offset: int,
        times: Sequence[int] | int,
        now_ms: int,
    ) -> None:
        """What was staged from that offset on, one after the other."""
        window, index = ids.window, partition.index
        note = window.note
        for place, name in enumerate(names):
            if name is not None:
                time = times if isinstance(times, int) else times[place]
                note(name, index, first_offset + place, time, now_ms)
        self._noted(window, partition, [name for name in names if name is not None])

    def append(self, partition: Partition, batch: Buffer, header: BatchHeader, now_ms: int) -> Staged:
        """A producer's batch, without what is known: staged."""
        ids = self.of(partition.topic)
        if not ids.is_ready:
            raise Unsettled(f"the ids of topic {partition.topic.name!r} are being read back: try again in a moment")
        records = opened.records(batch, header)
        firsts: list[First | None] = []
        left: list[bool] = []
        named: dict[bytes, Record] = {}
        for record in records:
            name = id_of(record.headers)
            first = ids.window.first(name, now_ms) if name is not None else None
            is_left = first is None and (name is None or name not in named)
            if is_left and name is not None:
                named[name] = record
            firsts.append(first)
            left.append(is_left)
        if not all(left):
            known = [first for first in firsts if first is not None]
            self._check_settled(partition, known)
            self.duplicates += left.count(False)
            if not any(left) and header.producer_id < 0:
                return _repeated(partition, known)
            batch = without(batch, header, records, left)
        staged = partition.stage(batch, read_header(batch), now_ms)
        if staged.duplicate:
            return staged
        for name, record in named.items():
            offset = staged.base_offset + record.offset - header.base_offset
            ids.window.note(name, partition.index, offset, record.timestamp_ms, now_ms)
        self._noted(ids.window, partition, list(named))
        if any(left):
            return staged
        return staged._replace(base_offset=_repeated(partition, [first for first in firsts if first]).base_offset)

    def _windows(self) -> list[Window]:
        return [topic.ids.window for topic in self._broker.topics() if topic.ids is not None]

    def _noted(self, window: Window, partition: Partition, names: list[bytes]) -> None:
        if names:
            self.came(len(names))
            if not self._unflushed:
                self._broker.when_flushed(self._flushed)
            self._unflushed.append((window, partition, names))
            if window.is_cut and not window.is_told:
                window.is_told = True
                details = {"topic": partition.topic.name, "ids": len(window), "window_ms": window.span_ms}
                self._broker.on_event("topic.ids-full", details)

    def _flushed(self, failed: Failed | None) -> None:
        unflushed, self._unflushed = self._unflushed, []
        for window, partition, names in unflushed:
            if failed and partition in failed:
                window.forget(names, partition.index)

    def _check_settled(self, partition: Partition, firsts: Sequence[First]) -> None:
        """In this partition, what is waited for in the end comes after them; others have to be synced by now."""
        for index, offset, _, _ in firsts:
            other = partition.topic.partitions[index]
            log = other.log
            if other is not partition and log is not None and log.synced_offset <= offset:
                log.sync_soon()
                raise Unsettled(f"offset {offset} of {other!r} has the same id, and is just being synced: try again")


def _repeated(partition: Partition, firsts: Sequence[First]) -> Staged:
    """Where all records of a batch were before. In another partition: there is no offset to tell of."""
    own = [first for first in firsts if first.partition == partition.index]
    if not own:
        return Staged(NO_OFFSET, NO_OFFSET, True, NO_APPEND_TIME)
    append_time_ms = own[0].timestamp_ms if partition.topic.is_log_append_time else NO_APPEND_TIME
    return Staged(own[0].offset, max(first.offset for first in own), True, append_time_ms)
