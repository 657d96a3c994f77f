"""ListOffsets, 1 to 11, by hand: every consumer begins with it, and some ask it twice for each poll.

What each version added: 2 isolation and throttling, 4 leader epochs, 6 flexible encoding, 7, 8, 9 and 11
another special timestamp each, 10 a timeout.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.primitives import MAX_ASKED, Reader, array, string

OLDEST: Final = 1
NEWEST: Final = 11
_FLEXIBLE: Final = 6

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

# The version that first may ask for a timestamp below zero.
SPECIAL_FROM: Final[dict[int, int]] = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

READ_COMMITTED: Final = 1

_INT32 = struct.Struct(">i")
_HEAD_1 = struct.Struct(">i")
_HEAD_2 = struct.Struct(">ib")
_ASKED_1 = struct.Struct(">iq")
_ASKED_4 = struct.Struct(">iiq")
_FOUND_1 = struct.Struct(">ihqq")
_FOUND_4 = struct.Struct(">ihqqi")
_FOUND_6 = struct.Struct(">ihqqix")


class AskedOffset(NamedTuple):
    partition: int
    current_leader_epoch: int
    timestamp: int


class ListOffsetsRequest(NamedTuple):
    topics: Sequence[tuple[str, Sequence[AskedOffset]]]
    replica_id: int = -1
    isolation_level: int = 0
    timeout_ms: int = 0


class FoundOffset(NamedTuple):
    partition: int
    error: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class ListOffsetsResponse(NamedTuple):
    topics: Sequence[tuple[str, Sequence[FoundOffset]]]
    throttle_ms: int = 0


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> ListOffsetsRequest:
    reader = Reader(buffer, at, end, version >= _FLEXIBLE, MAX_ASKED)
    replica_id = reader.int32()
    isolation_level = reader.int8() if version >= 2 else 0
    topics = []
    for _ in reader.array():
        name = reader.string()
        topics.append((name, [_read_asked(reader, version) for _ in reader.array()]))
        reader.skip_tags()
    timeout_ms = reader.int32() if version >= 10 else 0
    reader.skip_tags()
    reader.finish()
    return ListOffsetsRequest(topics, replica_id, isolation_level, timeout_ms)


def _read_asked(reader: Reader, version: int) -> AskedOffset:
    if version >= 4:
        asked = AskedOffset(*_ASKED_4.unpack_from(reader.buffer, reader.take(16)))
        reader.skip_tags()
        return asked
    partition, timestamp = _ASKED_1.unpack_from(reader.buffer, reader.take(12))
    return AskedOffset(partition, -1, timestamp)


def encode_response(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str, Sequence[FoundOffset]]],
    throttle_ms: int = 0,
) -> bytes:
    """A whole answer."""
    flexible = version >= _FLEXIBLE
    out = bytearray(_INT32.pack(throttle_ms) if version >= 2 else b"")
    out += array(len(topics), flexible)
    for name, partitions in topics:
        out += string(name, flexible) + array(len(partitions), flexible)
        for found in partitions:
            if version >= 4:
                out += (_FOUND_6 if flexible else _FOUND_4).pack(*found)
            else:
                out += _FOUND_1.pack(*found[:4])
        if flexible:
            out += b"\0"
    if flexible:
        out += b"\0"
    return header.answer(header.LIST_OFFSETS, version, correlation_id, out)


def encode_request(version: int, correlation_id: int, client_id: str | None, request: ListOffsetsRequest) -> bytes:
    flexible = version >= _FLEXIBLE
    out = bytearray()
    if version >= 2:
        out += _HEAD_2.pack(request.replica_id, request.isolation_level)
    else:
        out += _HEAD_1.pack(request.replica_id)
    out += array(len(request.topics), flexible)
    for name, partitions in request.topics:
        out += string(name, flexible) + array(len(partitions), flexible)
        for asked in partitions:
            out += _ASKED_4.pack(*asked) if version >= 4 else _ASKED_1.pack(asked[0], asked[2])
            if flexible:
                out += b"\0"
        if flexible:
            out += b"\0"
    if version >= 10:
        out += _INT32.pack(request.timeout_ms)
    if flexible:
        out += b"\0"
    return header.question(header.LIST_OFFSETS, version, correlation_id, client_id, out)


def decode_response(buffer: Buffer, at: int, end: int, version: int) -> ListOffsetsResponse:
    reader = Reader(buffer, at, end, version >= _FLEXIBLE)
    throttle_ms = reader.int32() if version >= 2 else 0
    topics = []
    for _ in reader.array():
        name = reader.string()
        topics.append((name, [_read_found(reader, version) for _ in reader.array()]))
        reader.skip_tags()
    reader.skip_tags()
    reader.finish()
    return ListOffsetsResponse(topics, throttle_ms)


def _read_found(reader: Reader, version: int) -> FoundOffset:
    partition, error, timestamp, offset = reader.int32(), reader.int16(), reader.int64(), reader.int64()
    leader_epoch = reader.int32() if version >= 4 else -1
    reader.skip_tags()
    return FoundOffset(partition, error, timestamp, offset, leader_epoch)
