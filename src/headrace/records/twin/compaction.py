"""Compaction's inner loops: which key was last written where, and what of a batch stays by that.

An OffsetMap is filled with the keys of one stretch of a log, in order (`note`), and then says of any batch before the
stretch's end what stays of it (`sift`): the last record of each key, everything at or after the end, and tombstones
until their time is over. Records without a key go.

A batch keeps its base offset, its last offset and what it says of its producer, whatever goes from it. When a tombstone
is met for the first time its batch is given a delete horizon: attribute bit 6, and the horizon in place of the base
timestamp, to which the records' own are then relative.

The two `..._batches` walk over plain batches (no compression, no transaction, no marker, true checksum) and stop in
front of any other, which is the caller's to judge.

The native kernel remembers keys by a hash of 128 bits with secrets of its own; here it is a digest. No answer depends
on which, only memory does.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left

from headrace.errors import CorruptBatch
from headrace.ports import Buffer
from headrace.records.header import (
    COMPRESSION_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAX_OFFSET,
    TRANSACTIONAL,
    BatchHeader,
    implausible,
    read_header,
    reseal,
)
from headrace.records.twin import varint
from headrace.records.twin.batches import scan
from headrace.records.twin.records import MAX_LONG, MIN_LONG, decode_records

NONE = -1
SPECIAL = COMPRESSION_MASK | TRANSACTIONAL | CONTROL


class OffsetMap:
    KEY_BYTES = 160  # what one key costs here, about

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def release(self) -> None:
        """Forgets all keys and takes no more: the memory is given back now, whoever still holds this."""
        self.capacity, self._offsets = 0, {}

    def note(self, body: Buffer, count: int, base_offset: int, from_offset: int) -> int:
        """Remembers the keys of a batch's records from `from_offset` on. The offset of the first that found no room;
        -1: all did."""
        for record in decode_records(body, count, base_offset, 0, 0):
            if record.key is not None and record.offset >= from_offset:
                key = _digest(record.key)
                if key not in self._offsets and len(self._offsets) >= self.capacity:
                    return record.offset
                self._offsets[key] = record.offset
        return NONE

    def note_batches(self, buffer: Buffer, start: int, end: int, from_offset: int) -> tuple[int, int]:
        """The same for plain batches: (where it stopped, as `note`)."""
        _check_range(buffer, start, end)
        at = start
        while (header := _plain(buffer, at, end)) is not None:
            body = memoryview(buffer)[at + HEADER_BYTES : at + header.size]
            try:
                full_at = self.note(body, header.record_count, header.base_offset, from_offset)
            except CorruptBatch:
                break
            if full_at != NONE:
                return at, full_at
            at += header.size
        return at, NONE

    def sift(
        self,
        body: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        end_offset: int,
        new_base_timestamp: int,
        drop_tombstones: bool,
    ) -> tuple[bytearray, int, int, int]:
        """(the records that stay, how many, their largest timestamp, how many of them are tombstones)."""
        out, kept, max_timestamp, tombstones, at = bytearray(), 0, NONE, 0, 0
        records = decode_records(body, count, base_offset, base_timestamp, None)
        moved = new_base_timestamp - base_timestamp
        if not MIN_LONG <= moved <= MAX_LONG:
            raise CorruptBatch("a timestamp out of range")
        data = bytes(body)
        for record in records:
            length, inside = varint.read(data, at, len(data))
            whole, at = data[at : inside + length], inside + length
            is_kept = record.offset >= end_offset
            if not is_kept and record.key is not None and not (record.value is None and drop_tombstones):
                is_kept = self._offsets.get(_digest(record.key), NONE) <= record.offset
            if is_kept:
                max_timestamp = max(max_timestamp, record.timestamp_ms) if kept else record.timestamp_ms
                kept += 1
                tombstones += record.value is None
                out += whole if moved == 0 else _moved(data[inside:at], moved)
        return out, kept, max_timestamp, tombstones

    def sift_batches(
        self,
        buffer: Buffer,
        start: int,
        end: int,
        end_offset: int,
        now_ms: int,
        horizon_ms: int,
        last_offsets: Buffer,
    ) -> tuple[int, bytearray, int, int]:
        """(where it stopped, the batches that stay, how many records went, the largest horizon of theirs or -1).

        Tombstones whose horizon is at or before `now_ms` go; those without one get `horizon_ms`. A batch that is left
        without records goes, unless its last offset is in `last_offsets` (sorted, 8 bytes each): the last of a producer
        stays, empty, for what it says of it.
        """
        _check_range(buffer, start, end)
        lasts = array("q", bytes(last_offsets))
        out, dropped, horizon, at = bytearray(), 0, NONE, start
        while (header := _plain(buffer, at, end)) is not None:
            try:
                batch, gone, until = self._sift_batch(
                    memoryview(buffer)[at : at + header.size], header, end_offset, now_ms, horizon_ms, lasts
                )
            except CorruptBatch:
                break
            out += batch
            dropped += gone
            horizon = max(horizon, until)
            at += header.size
        return at, out, dropped, horizon

    def _sift_batch(
        self,
        batch: memoryview,
        header: BatchHeader,
        end_offset: int,
        now_ms: int,
        horizon_ms: int,
        lasts: array[int],
    ) -> tuple[Buffer, int, int]:
        had_horizon = bool(header.attributes & DELETE_HORIZON)
        base, count = header.base_timestamp, header.record_count
        drop = had_horizon and base <= now_ms
        run = (batch[HEADER_BYTES:], count, header.base_offset, base, end_offset)
        records, kept, max_timestamp, tombstones = self.sift(*run, base, drop)
        # Not before all of it was compared with later keys: a tombstone's time runs from when the older records went.
        sets_horizon = tombstones > 0 and not had_horizon and header.next_offset <= end_offset
        until = NONE
        if tombstones and (sets_horizon or had_horizon):
            until = horizon_ms if sets_horizon else base
        if kept == count and not sets_horizon and count:
            return batch, 0, until
        if kept:
            if sets_horizon:
                records, *_ = self.sift(*run, horizon_ms, drop)
                header = header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon_ms)
            if not header.attributes & LOG_APPEND_TIME:
                header = header._replace(max_timestamp=max_timestamp)
            return reseal(header._replace(record_count=kept), records), count - kept, until
        if header.producer_id >= 0 and _holds(lasts, header.last_offset):
            return reseal(header._replace(record_count=0, max_timestamp=NONE), b""), count, NONE
        return b"", count, NONE


def _plain(buffer: Buffer, at: int, end: int) -> BatchHeader | None:
    """The batch at `at`, if it is whole, true, and nothing about it needs more than its records."""
    if end - at < HEADER_BYTES:
        return None
    header = read_header(buffer, at)
    if implausible(header) is not None or not 0 <= header.base_offset <= MAX_OFFSET or header.size > end - at:
        return None
    if header.attributes & SPECIAL or scan(buffer, at, at + header.size, NONE, True)[2] is not None:
        return None
    return header


def _moved(record: bytes, moved: int) -> bytearray:
    """The same record, relative to a base timestamp that lies so much later."""
    delta, at = varint.read(record, 1, len(record), varint.LONG)
    if not MIN_LONG <= delta - moved <= MAX_LONG:
        raise CorruptBatch("a timestamp out of range")
    inside = bytearray(record[:1])
    varint.write(inside, delta - moved)
    inside += record[at:]
    out = bytearray()
    varint.write(out, len(inside))
    return out + inside


def _holds(sorted_offsets: array[int], offset: int) -> bool:
    place = bisect_left(sorted_offsets, offset)
    return place < len(sorted_offsets) and sorted_offsets[place] == offset


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=16).digest()


def _check_range(buffer: Buffer, start: int, end: int) -> None:
    if not 0 <= start <= end <= len(buffer):
        raise ValueError(f"{start} to {end} is not within the {len(buffer)} bytes of the buffer")
