"""Large batches that were decoded for a page and not used up by it: who reads on, a few records at a time, finds them.

Without this a reader of ten records a page would have a batch of ten thousand decoded a thousand times. There is one
batch for each partition, few altogether, and what is not certain to be what the log holds is not used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from typing import NamedTuple

from headrace.broker.partition import Partition
from headrace.log.log import AnyLog
from headrace.records.record import Record

KEPT_BYTES = 8 << 20  # of batches as they were read; decoded they take three times as much
LEAST_RECORDS = 64  # a smaller batch is decoded again in less than the time of a request


class Batch(NamedTuple):
    first_offset: int
    next_offset: int
    records: list[Record]
    size: int


class Leftovers:
    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Partition, bool], tuple[AnyLog, int, Batch]] = OrderedDict()
        self._size = 0

    def keep(self, partition: Partition, committed: bool, batch: Batch) -> None:
        """`committed`: what was read so has no aborted records."""
        log = partition.log
        if log is None or len(batch.records) < LEAST_RECORDS or batch.size > KEPT_BYTES // 2:
            return
        self._forget((partition, committed))
        self._kept[partition, committed] = (log, log.opened_at, batch)
        self._size += batch.size
        while self._size > KEPT_BYTES:
            self._forget(next(iter(self._kept)))

    def find(self, partition: Partition, committed: bool, log: AnyLog, offset: int) -> Batch | None:
        """The batch that holds the offset, if it is here and as the log has it."""
        kept = self._kept.get((partition, committed))
        if kept is None or not kept[2].first_offset <= offset < kept[2].next_offset:
            return None
        # A log that was cut and went on counts from elsewhere.
        if kept[0] is not log or kept[1] != log.opened_at or offset < log.start_offset or log.failed is not None:
            self._forget((partition, committed))
            return None
        self._kept.move_to_end((partition, committed))
        return kept[2]

    def _forget(self, key: tuple[Partition, bool]) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size -= kept[2].size


def between(batch: Batch, from_offset: int, to_offset: int, most: int) -> list[Record]:
    first = bisect_left(batch.records, from_offset, key=_offset)
    found = batch.records[first : first + most]
    while found and found[-1].offset >= to_offset:
        found.pop()
    return found


def _offset(record: Record) -> int:
    return record.offset
