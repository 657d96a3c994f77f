"""Batches as wholes: check one, walk many. No record is looked at.

- `validate` judges what a producer sent, before it may enter a log;
- `scan` reads back what a log holds, and says where and why it stops being true;
- `cut` finds the whole batches that answer a read, by their headers alone;
- `pick` finds and checks them in one go, where all is as it should be.

Positions are absolute in `buffer`. A range outside of it is the caller's fault: ValueError.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from headrace.errors import CorruptBatch, UnsupportedMagic
from headrace.ports import Buffer
from headrace.records.header import (
    COMPRESSION_MASK,
    CRC_FROM,
    HEADER_BYTES,
    LAST_COMPRESSION,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    MAX_BATCH_BYTES,
    MAX_OFFSET,
    BatchHeader,
    implausible,
    read_header,
)
from headrace.records.twin.checksum import crc32c
from headrace.records.twin.records import MIN_RECORD_BYTES

# position, size, base offset, next offset, max timestamp, leader epoch, producer id, producer epoch, base
# sequence, attributes
Scanned = tuple[int, int, int, int, int, int, int, int, int, int]

SHORT = "short"  # the walk reached the end within a batch
BAD_CRC = "the checksum does not match"


_CRC = struct.Struct(">I")


def validate(buffer: Buffer, at: int = 0, end: int | None = None) -> BatchHeader:
    """The header of the one batch that fills `at` to `end` exactly (the end of the buffer unless said)."""
    if end is None:
        end = len(buffer)
    _check_range(buffer, at, end)
    room = end - at
    if room > MAGIC_AT and buffer[at + MAGIC_AT] != MAGIC:
        _refuse_magic(buffer[at + MAGIC_AT])
    if room < HEADER_BYTES:
        raise CorruptBatch(f"a batch needs {HEADER_BYTES} bytes of header, and there are {room}")
    header = read_header(buffer, at)
    why = implausible(header) or _unacceptable(header)
    if why is None and header.size != room:
        why = f"the batch says {header.size} bytes, and there are {room}"
    if why is None and crc32c(memoryview(buffer)[at + CRC_FROM : end]) != header.crc:
        why = BAD_CRC
    if why is not None:
        raise CorruptBatch(why)
    return header


def scan(
    buffer: Buffer, start: int, end: int, expected_offset: int, check_crc: bool
) -> tuple[list[Scanned], int, str | None]:
    """The whole, true batches from `start` on; where the walk stopped; why there (None: it reached `end`).

    Offsets never go back, and the first is not before `expected_offset` (-1: any); gaps are allowed.
    """
    _check_range(buffer, start, end)
    view = memoryview(buffer)
    found: list[Scanned] = []
    at = start
    while at < end:
        if end - at < HEADER_BYTES:
            return found, at, SHORT
        header = read_header(view, at)
        why = implausible(header) or _misplaced(header, expected_offset)
        if why is not None:
            return found, at, why
        if header.size > end - at:
            return found, at, SHORT
        if check_crc and crc32c(view[at + CRC_FROM : at + header.size]) != header.crc:
            return found, at, BAD_CRC
        found.append(_scanned(header, at))
        at += header.size
        expected_offset = header.next_offset
    return found, at, None


def cut(buffer: Buffer, start: int, limit: int, from_offset: int, up_to_offset: int) -> tuple[int, int, int, bool]:
    """What to send to a reader: (begin, end, next offset, damaged).

    `begin` is where the batch that holds `from_offset` starts, or where the walk stopped without finding it.
    `end` is after the last whole batch that ends by `limit` and starts below `up_to_offset`; equal to `begin`
    when there is none, with `from_offset` as the next offset. `damaged`: the walk met what is no header.
    """
    _check_range(buffer, start, limit)
    at, begin, next_offset, expected = start, -1, from_offset, -1
    damaged = False
    while limit - at >= HEADER_BYTES:
        header = read_header(buffer, at)
        if implausible(header) is not None or _misplaced(header, expected) is not None:
            damaged = True
            break
        expected = header.next_offset
        if begin < 0 and expected > from_offset:
            begin = at
        if header.base_offset >= up_to_offset or header.size > limit - at:
            break
        at += header.size
        if begin >= 0:
            next_offset = expected
    return (begin if begin >= 0 else at), at, next_offset, damaged


def pick(
    buffer: Buffer, expected_offset: int, from_offset: int, up_to_offset: int, max_bytes: int
) -> tuple[int, int, int] | None:
    """What to send to a reader: (begin, end, next offset), of a buffer that starts with the batch at `expected_offset`.

    The batch that holds `from_offset` is the first, and as many follow as start below `up_to_offset`, are whole and
    have together `max_bytes` at most: all of them true, without gaps in their offsets. None: there is no such batch, or
    something is not as it should be, and whoever asks looks again with `cut` and `scan`.
    """
    view, at, begin, expected = memoryview(buffer), 0, -1, expected_offset
    while len(view) - at >= HEADER_BYTES:
        header = read_header(view, at)
        if implausible(header) is not None or _misplaced(header, expected) or header.base_offset != expected:
            return None
        end = at + header.size
        if header.next_offset > from_offset:
            first = at if begin < 0 else begin
            if header.base_offset >= up_to_offset or end > len(view) or end - first > max_bytes:
                break
            begin = first
            if crc32c(view[at + CRC_FROM : end]) != header.crc:
                return None
        expected = header.next_offset
        at = min(end, len(view))
    return (begin, at, expected) if begin >= 0 else None


def stamp_append_time(buffer: bytearray | memoryview, at: int, size: int, now_ms: int) -> None:
    """Makes the batch say that all its records were appended at `now_ms`, in place, with a new checksum."""
    _check_range(buffer, at, at + size)
    if size < HEADER_BYTES:
        raise ValueError(f"a batch has {HEADER_BYTES} bytes at least, not {size}")
    buffer[at + 22] |= LOG_APPEND_TIME
    struct.pack_into(">q", buffer, at + 35, now_ms)
    _CRC.pack_into(buffer, at + 17, crc32c(memoryview(buffer)[at + CRC_FROM : at + size]))


def _unacceptable(header: BatchHeader) -> str | None:
    """What a producer may not send, though a compacted log may hold it."""
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        return f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
    compression = header.attributes & COMPRESSION_MASK
    if compression > LAST_COMPRESSION:
        return f"compression {compression} is not known"
    body = MAX_BATCH_BYTES if compression else header.size - HEADER_BYTES  # unfolded, no body is larger than a batch
    if header.record_count * MIN_RECORD_BYTES > body:
        return f"{header.record_count} records can not fit in {body} bytes"
    return None


def _misplaced(header: BatchHeader, expected_offset: int) -> str | None:
    if not 0 <= header.base_offset <= MAX_OFFSET:
        return f"a base offset of {header.base_offset} is not an offset"
    if header.base_offset < expected_offset:
        return f"offset {header.base_offset} where {expected_offset} or more was expected"
    return None


def _scanned(header: BatchHeader, at: int) -> Scanned:
    return (
        at,
        header.size,
        header.base_offset,
        header.next_offset,
        header.max_timestamp,
        header.leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.attributes,
    )


def _refuse_magic(magic: int) -> NoReturn:
    text = f"magic {magic} where RecordBatch v2 has {MAGIC}"
    raise UnsupportedMagic(text) if magic < MAGIC else CorruptBatch(text)


def _check_range(buffer: Buffer, start: int, end: int) -> None:
    if not 0 <= start <= end <= len(buffer):
        raise ValueError(f"{start} to {end} is not within the {len(buffer)} bytes of the buffer")
