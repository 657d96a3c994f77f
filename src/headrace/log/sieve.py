"""What stays of batches when a log is compacted, one after the other in their order.

Plain batches are the kernel's (records/twin/compaction.py says by which rules). Here are the others: compressed ones
are unfolded and packed again; those of transactions, and the markers that end them, go by these rules:

- what belongs to an aborted transaction goes at once, and its keys never counted;
- a marker stays while there is, or was at the last look, anything of its transaction before it. Then it gets a delete
  horizon, as tombstones do, and goes when that is over;
- the last batch of a producer that is remembered stays, without records: it tells a restart the producer's sequence. So
  does the last marker of one of which only markers are known, whole.

A batch whose records do not read stays as it is. Off the loop; all that it needs was caught on it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from headrace.errors import CorruptBatch
from headrace.ports import Buffer
from headrace.records.batch import HEADER_BYTES, BatchHeader, read_header
from headrace.records.header import COMPRESSION_MASK, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, reseal
from headrace.records.kernel import OffsetMap, scan

if TYPE_CHECKING:
    from headrace.log.producers import State

NONE = -1
NEVER_MS = -(1 << 62)  # as the time of a sieve: nothing's horizon is over


class Rules(NamedTuple):
    now_ms: int  # NEVER_MS: tombstones and markers all stay
    horizon_ms: int  # until when those stay that are met for the first time
    aborted: dict[int, list[tuple[int, int]]]  # producer id -> (first offset, marker's offset), in order
    last_offsets: array[int]  # of the producers that are remembered, sorted
    only_markers: frozenset[tuple[int, int]]  # (producer id, epoch) of those of which nothing else is known


class Caught(NamedTuple):
    """What rules are made of, as it was at one moment: copies, which cost the loop a millisecond or two."""

    now_ms: int
    horizon_ms: int
    end_offset: int  # what is aborted from here on does not matter
    aborted: tuple[array[int], array[int], array[int]]  # producer ids, first offsets, markers' offsets
    producers: dict[int, State]


def make_rules(caught: Caught) -> Rules:
    """Off the loop: half a second, where there is as much as there may be."""
    producers, firsts, markers = caught.aborted
    by_producer: dict[int, list[tuple[int, int]]] = {}
    for place in sorted(range(len(firsts)), key=firsts.__getitem__):
        if firsts[place] < caught.end_offset:
            by_producer.setdefault(producers[place], []).append((firsts[place], markers[place]))
    lasts, only_markers = [], []
    for producer_id, (epoch, _, batches) in caught.producers.items():
        if batches:
            lasts.append(batches[-1][3])
        else:
            only_markers.append((producer_id, epoch))
    return Rules(caught.now_ms, caught.horizon_ms, by_producer, array("q", sorted(lasts)), frozenset(only_markers))


class Damaged(Exception):
    """At this position of the window there should be a batch, and is none."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at, self.why = at, why


def special_at(data: Buffer, at: int, end: int) -> BatchHeader | None:
    """The batch at `at` which the kernel left to us; None when it is not whole."""
    if end - at < HEADER_BYTES:
        return None
    header = read_header(data, at)
    _, _, why = scan(data, at, min(end, at + max(HEADER_BYTES, header.size)), NONE, True)
    if why == "short":
        return None
    if why is not None:
        raise Damaged(at, why)
    return header


def is_aborted(rules: Rules, header: BatchHeader) -> bool:
    ranges = rules.aborted.get(header.producer_id) if header.attributes & TRANSACTIONAL else None
    if ranges is None:
        return False
    place = bisect_right(ranges, header.base_offset, key=lambda one: one[0]) - 1
    return place >= 0 and header.base_offset < ranges[place][1]


def unfolded(data: Buffer, at: int, header: BatchHeader) -> Buffer:
    from headrace.records.codec import records_bytes  # late: it brings the compressions along

    return records_bytes(header, memoryview(data)[at + HEADER_BYTES : at + header.size])


class Sieve:
    def __init__(self, offsets: OffsetMap, end_offset: int, rules: Rules) -> None:
        self._offsets, self._end_offset, self._rules = offsets, end_offset, rules
        self._lasts = rules.last_offsets.tobytes()
        self._open: set[int] = set()  # producers of which something of a transaction was met, and not yet its marker
        self.dropped = 0  # records
        self.horizon_ms = NONE  # the largest that stays
        self.gone_markers: list[int] = []  # offsets of those that ended a transaction with an abort

    def sift(self, data: Buffer, start: int, end: int) -> tuple[int, bytearray]:
        """(where the first batch begins that is not whole, what stays of those before). Damaged when that is none."""
        out, at, rules = bytearray(), start, self._rules
        while True:
            at, kept, dropped, horizon_ms = self._offsets.sift_batches(
                data, at, end, self._end_offset, rules.now_ms, rules.horizon_ms, self._lasts
            )
            out += kept
            self.dropped += dropped
            self.horizon_ms = max(self.horizon_ms, horizon_ms)
            header = special_at(data, at, end) if at < end else None
            if header is None:
                return at, out
            out += self._special(data, at, header)
            at += header.size

    def _special(self, data: Buffer, at: int, header: BatchHeader) -> Buffer:
        batch = memoryview(data)[at : at + header.size]
        if header.attributes & CONTROL:
            return self._marker(batch, header)
        if header.attributes & TRANSACTIONAL:
            self._open.add(header.producer_id)
        if is_aborted(self._rules, header):
            self.dropped += header.record_count
            return self._empty(header)
        try:
            return self._records(batch, header, unfolded(data, at, header))
        except CorruptBatch:
            return batch

    def _records(self, batch: memoryview, header: BatchHeader, body: Buffer) -> Buffer:
        had_horizon, base, count = bool(header.attributes & DELETE_HORIZON), header.base_timestamp, header.record_count
        drop = had_horizon and base <= self._rules.now_ms
        run = (body, count, header.base_offset, base, self._end_offset)
        records, kept, max_timestamp, tombstones = self._offsets.sift(*run, base, drop)
        sets_horizon = tombstones > 0 and not had_horizon and header.next_offset <= self._end_offset
        if tombstones and (sets_horizon or had_horizon):
            self.horizon_ms = max(self.horizon_ms, self._rules.horizon_ms if sets_horizon else base)
        self.dropped += count - kept
        if kept == count and not sets_horizon and count:
            return batch
        if not kept:
            return self._empty(header)
        if sets_horizon:
            records, *_ = self._offsets.sift(*run, self._rules.horizon_ms, drop)
            header = _with_horizon(header, self._rules.horizon_ms)
        if not header.attributes & LOG_APPEND_TIME:
            header = header._replace(max_timestamp=max_timestamp)
        from headrace.records.compression import compress

        return reseal(header._replace(record_count=kept), compress(header.compression, records))

    def _empty(self, header: BatchHeader) -> Buffer:
        lasts = self._rules.last_offsets
        place = bisect_right(lasts, header.last_offset) - 1
        if header.producer_id < 0 or place < 0 or lasts[place] != header.last_offset:
            return b""
        attributes = header.attributes & ~COMPRESSION_MASK  # clients would try to unfold nothing
        return reseal(header._replace(attributes=attributes, record_count=0, max_timestamp=NONE), b"")

    def _marker(self, batch: memoryview, header: BatchHeader) -> Buffer:
        from headrace.records.control import decode_marker

        try:
            marker = decode_marker(batch)
        except CorruptBatch:
            return batch
        if marker is None:  # of a kind that we do not know
            return batch
        is_needed = header.producer_id in self._open
        self._open.discard(header.producer_id)
        is_last = (header.producer_id, header.producer_epoch) in self._rules.only_markers
        if is_needed or is_last or header.next_offset > self._end_offset:
            return batch
        if not header.attributes & DELETE_HORIZON:
            horizon_ms = self._rules.horizon_ms
            self.horizon_ms = max(self.horizon_ms, horizon_ms)
            run = (batch[HEADER_BYTES:], header.record_count, header.base_offset, header.base_timestamp)
            records, *_ = self._offsets.sift(*run, 0, horizon_ms, False)  # from offset 0 on: all of it
            return reseal(_with_horizon(header, horizon_ms), records)
        if header.base_timestamp > self._rules.now_ms:
            self.horizon_ms = max(self.horizon_ms, header.base_timestamp)
            return batch
        if not marker.is_commit:
            self.gone_markers.append(header.base_offset)
        self.dropped += header.record_count
        return b""


def _with_horizon(header: BatchHeader, horizon_ms: int) -> BatchHeader:
    return header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon_ms)
