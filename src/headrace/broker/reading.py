"""Range reads: records, a page at a time, for doors that do not pass batches on.

- Committed by default: what a transaction wrote is seen once it is committed, and nothing past one that is under way.
- Control batches, aborted records and gaps of compaction are not seen; `next_offset` steps over them.
- A damaged stretch is stepped over, and the log has told of it (`log.damage`): the rest is worth more than none.
- What is in memory and small is read at once; what is large is decoded, and what waits for the disk is read, off the
  loop. Memory topics are read the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.broker.leftovers import Leftovers
from headrace.broker.page_read import OnPage, Page, PageRead, Wish
from headrace.broker.partition import Partition
from headrace.errors import HeadraceError, NotLeader
from headrace.ports import Promise
from headrace.records.record import Record

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.topic import Topic

PAGE_BYTES = 1 << 20  # of batches for a page, unless somebody says: one batch at least
LAST_RECORDS = 10_000  # that `last` gives at most: who wants more reads pages
LAST_BYTES = 64 << 20  # of the same
RECORD_COST = 60  # bytes that a record counts for besides what it holds
MAX_TOLD = 1000  # batches that hold no records and were told of: each once

__all__ = ["OnPage", "Page", "Reading", "size_of"]


class Reading:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.leftovers = Leftovers()
        self._told: set[tuple[str, int, int]] = set()

    def read(
        self,
        partition: Partition,
        offset: int,
        done: OnPage,
        *,
        max_records: int,
        max_bytes: int = PAGE_BYTES,
        to_offset: int | None = None,
        committed: bool = True,
    ) -> None:
        """Records from `offset` on, before `to_offset`: some if there are any, at most so many, and no further batch
        once there are so many bytes. `done` comes before this returns when what it takes is in memory and small.
        Outside of the log: OffsetOutOfRange."""
        wish = Wish(offset, max_records, max_bytes, to_offset, committed)
        read = PageRead(self._broker, partition, wish, done)
        if partition.log is not None:
            read.go_on()
        else:
            partition.when_opened(read.go_on)

    async def page(
        self,
        partition: Partition,
        offset: int,
        *,
        max_records: int,
        max_bytes: int = PAGE_BYTES,
        to_offset: int | None = None,
        committed: bool = True,
    ) -> Page:
        """As `read`."""
        promise: Promise[None] | None = None
        came: list[Page | HeadraceError] = []

        def done(page: Page | HeadraceError) -> None:
            came.append(page)
            if promise is not None and not promise.done():
                promise.set_result(None)

        options = {"max_records": max_records, "max_bytes": max_bytes, "to_offset": to_offset}
        self.read(partition, offset, done, **options, committed=committed)  # type: ignore[arg-type]
        if not came:
            promise = self._broker.new_promise()
            await promise
        (page,) = came
        if isinstance(page, HeadraceError):
            raise page
        return page

    async def offset_at(self, partition: Partition, time_ms: int) -> int:
        """Of the first record at or after the time; the end when there is none."""
        log = (await partition.opened()).log
        if log is None:
            raise partition.error or NotLeader(f"{partition!r} was closed")
        found = await self._in_background(log.timestamp_lookup(time_ms).run)
        end = log.stable_offset
        return end if found is None else min(found[0], end)

    async def last(
        self, topic: Topic, count: int, only: int | None = None, max_bytes: int = LAST_BYTES
    ) -> list[tuple[int, Record]]:
        """The newest `count` records of a topic, merged by time over its partitions, or of one of them: each with its
        partition, oldest first. LAST_RECORDS at most, and as many as have `max_bytes`, one at least; while it looks,
        it holds twice that, however many partitions there are."""
        count = min(count, LAST_RECORDS)
        if count <= 0:
            return []
        merged: list[tuple[int, Record]] = []
        since_ms: float = -math.inf  # of the newest that was left out: with older ones there would be a gap
        for partition in topic.partitions if only is None else [topic.partitions[only]]:
            found = await self._last_of(partition, count, max_bytes)
            merged += [(partition.index, record) for record in found if record.timestamp_ms >= since_ms]
            del found  # it is not to be held while the next is read
            if len(topic.partitions) > 1:
                merged.sort(key=lambda row: row[1].timestamp_ms)  # stable: where times agree, the order stays
            gone = len(merged) - _fitting(merged, count, max_bytes)
            if gone:
                since_ms = merged[gone - 1][1].timestamp_ms
                del merged[:gone]
        return merged

    async def _last_of(self, partition: Partition, count: int, max_bytes: int) -> list[Record]:
        """So many, or so many bytes and the one before them, which tells that there are more. Looks ever further back:
        not every offset has a record."""
        await partition.opened()
        end, back = partition.last_stable_offset, count
        while True:
            start = max(partition.start_offset, end - back)
            found: list[Record] = []
            size, at = 0, start
            while at < end:
                page = await self.page(partition, at, max_records=LAST_RECORDS, to_offset=end)
                found += page.records
                size += sum(map(size_of, page.records))
                if page.next_offset <= at:  # a recovery has cut the end off
                    break
                at = page.next_offset
                gone = 0
                while gone < len(found):
                    without = size - size_of(found[gone])
                    if len(found) - gone <= count and without <= max_bytes:
                        break
                    size, gone = without, gone + 1
                del found[:gone]
            if size > max_bytes or len(found) >= count or start <= partition.start_offset:
                return found
            back *= 8

    async def more(self, partition: Partition, offset: int, timeout_s: float) -> bool:
        """Waits until something at or after `offset` can be read: True; False when the time is over first."""
        await partition.opened()
        if partition.log is not None and partition.last_stable_offset > offset:
            return True
        waiting = _More(partition, offset, self._broker.new_promise())
        partition.watch(waiting)
        cancel = self._broker.timers.after(timeout_s, waiting.end)
        try:
            await waiting.promise
        finally:
            cancel()
            partition.unwatch(waiting)
        if partition.error is not None:
            raise partition.error
        return partition.log is not None and partition.last_stable_offset > offset

    def tell_of(self, partition: Partition, offset: int, why: str) -> None:
        """A producer's batch that is whole and holds no records: it is left out, which is told once."""
        place = (partition.topic.name, partition.index, offset)
        if place not in self._told and len(self._told) < MAX_TOLD:
            self._told.add(place)
            details = {"topic": place[0], "partition": place[1], "offset": offset, "why": why}
            self._broker.on_event("topic.unreadable", details)

    async def _in_background(self, work: Callable[[], tuple[int, int] | None]) -> tuple[int, int] | None:
        promise = self._broker.new_promise()
        came: list[tuple[int, int] | None] = []

        def done(found: tuple[int, int] | None, error: BaseException | None) -> None:
            came.append(found)
            if not promise.done():
                promise.set_result(None) if error is None else promise.set_exception(error)

        self._broker.background.run(work, done)
        await promise
        return came[0]


def size_of(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return RECORD_COST + len(record.value or b"") + len(record.key or b"") + headers


def _fitting(rows: Sequence[tuple[int, Record]], count: int, max_bytes: int) -> int:
    """How many of the last: `count` at most, and one at least."""
    kept = 0
    for _, record in reversed(rows):
        max_bytes -= size_of(record)
        if kept == count or (max_bytes < 0 and kept):
            break
        kept += 1
    return kept


class _More:
    """Somebody who waits for more, for a while."""

    def __init__(self, partition: Partition, offset: int, promise: Promise[None]) -> None:
        self._partition, self._offset, self.promise = partition, offset, promise

    def wake(self, partition: Partition) -> None:
        if partition.log is None or partition.last_stable_offset > self._offset:
            self.end()

    def end(self) -> None:
        if not self.promise.done():
            self.promise.set_result(None)
