"""What a Fetch brought of one partition, and how it becomes records: whole batches are decoded at once, when somebody
wants them. No socket, no clock.

Batches begin where the broker keeps them, so records before the wanted offset are left out here. So are control
batches, and, for who reads committed records only, what aborted transactions wrote: the broker names each aborted
producer and where its transaction began; its records are left out from there to its abort marker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from headrace.client.values import APPEND_TIME, CREATE_TIME, Record
from headrace.errors import CorruptBatch
from headrace.ports import Buffer
from headrace.records import codec, kernel
from headrace.records.control import decode_marker
from headrace.records.header import HEADER_BYTES, MAGIC, MAGIC_AT, BatchHeader, read_header

_NEW = tuple.__new__
SHORT: Final = "short"


class Aborted:
    """Which producers' records are those of an aborted transaction, from one offset to the next."""

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        self._to_come = deque(sorted(transactions, key=lambda one: one[1]))
        self._now: set[int] = set()

    def leaves_out(self, header: BatchHeader, batch: Buffer) -> bool:
        """Called for each batch in order."""
        while self._to_come and self._to_come[0][1] <= header.last_offset:
            self._now.add(self._to_come.popleft()[0])
        if header.is_control:
            marker = decode_marker(batch)
            if marker is not None and not marker.is_commit:
                self._now.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._now


class Chunk:
    """The batches of one answer, read from front to back."""

    __slots__ = ("_aborted", "_batches", "buffer", "next_offset", "size")

    def __init__(self, buffer: Buffer, offset: int, aborted: Iterable[tuple[int, int]] | None) -> None:
        """CorruptBatch when not even the first batch is whole and true; what follows a good one is fetched again."""
        self.buffer = memoryview(buffer)
        self.size = len(self.buffer)
        self._aborted = None if aborted is None else Aborted(aborted)
        found, at, why = kernel.scan(self.buffer, 0, self.size, -1, True)
        if not found and self.size:
            raise CorruptBatch(_fault(self.buffer, at, why))
        self._batches = deque((one[0], one[1]) for one in found)
        self.next_offset = max(offset, found[-1][3]) if found else offset

    @property
    def is_empty(self) -> bool:
        return not self._batches

    def next(self, topic: str, partition: int, offset: int, end: int | None) -> tuple[list[Record], int, int]:
        """The records of the next batch from `offset` on, the offset after the batch, and its leader's epoch."""
        header, batch = self.next_batch(offset)
        if batch is None:
            return [], max(offset, header.next_offset), header.leader_epoch
        records = decode(topic, partition, header, batch)
        if header.base_offset < offset or (end is not None and header.next_offset > end):
            records = [record for record in records if record.offset >= offset and (end is None or record.offset < end)]
        return records, header.next_offset, header.leader_epoch

    def next_batch(self, offset: int) -> tuple[BatchHeader, memoryview | None]:
        """The next batch as it came; None in its place when it has nothing for who reads from `offset` on."""
        at, size = self._batches.popleft()
        header = read_header(self.buffer, at)
        batch = self.buffer[at : at + size]
        if header.next_offset <= offset or not header.record_count:
            return header, None
        if self._aborted is not None and self._aborted.leaves_out(header, batch):
            return header, None
        return header, None if header.is_control else batch


def decode(topic: str, partition: int, header: BatchHeader, batch: memoryview) -> list[Record]:
    is_append_time, epoch = header.is_log_append_time, header.leader_epoch
    kind = APPEND_TIME if is_append_time else CREATE_TIME
    found = kernel.decode_records(
        codec.records_bytes(header, batch[HEADER_BYTES:]),
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if is_append_time else None,
    )
    return [
        _NEW(Record, (topic, partition, offset, timestamp_ms, kind, key, value, headers, epoch))
        for key, value, headers, timestamp_ms, offset in found
    ]


def _fault(buffer: memoryview, at: int, why: str | None) -> str:
    if len(buffer) - at > MAGIC_AT and buffer[at + MAGIC_AT] < MAGIC:
        return f"messages of format {buffer[at + MAGIC_AT]}, from before Kafka 0.11, are not read by this client"
    return "the broker sent a part of a batch" if why == SHORT else f"the broker sent a damaged batch: {why}"
