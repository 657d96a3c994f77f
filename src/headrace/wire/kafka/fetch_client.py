"""Fetch as a client sees it: requests out, answers in. Records are views of the buffer they came in."""

from __future__ import annotations

import struct

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.fetch import (
    ASKED_4,
    ASKED_5,
    ASKED_9,
    ASKED_12,
    BY_ID,
    CONSUMER,
    FLEXIBLE,
    HEAD_4,
    HEAD_7,
    HEAD_15,
    NO_HIGH_WATERMARK,
    REPLICA_STATE,
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from headrace.wire.kafka.leaders import Endpoint, read_endpoints, read_leader
from headrace.wire.kafka.primitives import NIL_UUID, Reader, array, string, tagged

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_REPLICA = struct.Struct(">iqx")


def encode_request(version: int, correlation_id: int, client_id: str | None, request: FetchRequest) -> bytes:
    """A whole request, with its size in front."""
    flexible = version >= FLEXIBLE
    out = bytearray(4) + header.request_header(header.FETCH, version, correlation_id, client_id)
    head = request[1:7] if version >= REPLICA_STATE else request[:7] if version >= 7 else request[:5]
    out += (HEAD_15 if version >= REPLICA_STATE else HEAD_7 if version >= 7 else HEAD_4).pack(*head)
    out += array(len(request.topics), flexible)
    for name, topic_id, partitions in request.topics:
        out += (topic_id or NIL_UUID).bytes if version >= BY_ID else string(name or "", flexible)
        out += array(len(partitions), flexible)
        for asked in partitions:
            _put_asked(out, asked, version)
        if flexible:
            out += b"\0"
    if version >= 7:
        out += array(len(request.forgotten), flexible)
        for name, topic_id, indexes in request.forgotten:
            out += (topic_id or NIL_UUID).bytes if version >= BY_ID else string(name or "", flexible)
            out += array(len(indexes), flexible) + b"".join(map(_INT32.pack, indexes))
            if flexible:
                out += b"\0"
    if version >= 11:
        out += string(request.rack_id, flexible)
    if flexible:
        out += _request_tags(request, version)
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _put_asked(out: bytearray, asked: FetchPartition, version: int) -> None:
    partition, epoch, offset, last_epoch, log_start, max_bytes, high_watermark, directory_id = asked
    if version < 5:
        out += ASKED_4.pack(partition, offset, max_bytes)
    elif version < 9:
        out += ASKED_5.pack(partition, offset, log_start, max_bytes)
    elif version < FLEXIBLE:
        out += ASKED_9.pack(partition, epoch, offset, log_start, max_bytes)
    else:
        out += ASKED_12.pack(partition, epoch, offset, last_epoch, log_start, max_bytes)
        fields = []
        if version >= 17 and directory_id is not None:
            fields.append((0, directory_id.bytes))
        if version >= 18 and high_watermark != NO_HIGH_WATERMARK:
            fields.append((1, _INT64.pack(high_watermark)))
        out += tagged(fields)


def _request_tags(request: FetchRequest, version: int) -> bytes:
    fields = []
    if request.cluster_id is not None:
        fields.append((0, string(request.cluster_id, True)))
    if version >= REPLICA_STATE and (request.replica_id, request.replica_epoch) != (CONSUMER, -1):
        fields.append((1, _REPLICA.pack(request.replica_id, request.replica_epoch)))
    return tagged(fields)


def decode_response(buffer: Buffer, at: int, end: int, version: int) -> FetchResponse:
    """The body of an answer; records are views of `buffer`."""
    reader = Reader(buffer, at, end, version >= FLEXIBLE)
    throttle_ms, error, session_id = reader.int32(), 0, 0
    if version >= 7:
        error, session_id = reader.int16(), reader.int32()
    topics = []
    for _ in reader.array():
        name = None if version >= BY_ID else reader.string()
        topic_id = reader.uuid() if version >= BY_ID else None
        partitions = [_read_fetched(reader, version) for _ in reader.array()]
        reader.skip_tags()
        topics.append(FetchedTopic(name, topic_id, partitions))
    endpoints: list[Endpoint] = []
    for tag in reader.tags():
        if tag == 0 and version >= 16:
            endpoints = read_endpoints(reader)
    reader.finish()
    return FetchResponse(throttle_ms, error, session_id, topics, endpoints)


def _read_fetched(reader: Reader, version: int) -> FetchedPartition:
    partition, error, high_watermark = reader.int32(), reader.int16(), reader.int64()
    last_stable = reader.int64()
    log_start = reader.int64() if version >= 5 else -1
    aborted: list[tuple[int, int]] | None = None
    rounds = reader.nullable_array()
    if rounds is not None:
        aborted = []
        for _ in rounds:
            aborted.append((reader.int64(), reader.int64()))
            reader.skip_tags()
    preferred = reader.int32() if version >= 11 else -1
    size = reader.uvarint() - 1 if reader.flexible else reader.int32()
    pieces: list[Buffer] | None = None
    if size != -1:
        start = reader.take(size)
        pieces = [memoryview(reader.buffer)[start : start + size]] if size else []
    diverging = leader = snapshot = None
    for tag in reader.tags():
        if tag == 0:
            diverging = (reader.int32(), reader.int64())
        elif tag == 1:
            leader = read_leader(reader)
        elif tag == 2:
            snapshot = (reader.int64(), reader.int32())
    return FetchedPartition(
        partition, error, high_watermark, last_stable, log_start, pieces, max(size, 0), aborted, preferred,
        diverging, leader, snapshot,
    )  # fmt: skip
