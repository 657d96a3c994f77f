"""Produce as a client sees it: requests out, answers in. Batches are passed through, not copied."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from uuid import UUID

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.leaders import Endpoint, read_endpoints, read_leader
from headrace.wire.kafka.primitives import NIL_UUID, Reader, array, string, uvarint
from headrace.wire.kafka.produce import BY_ID, FLEXIBLE, PartitionResult, ProduceResponse, TopicResult

_ACKS = struct.Struct(">hi")
_COUNT = struct.Struct(">i")


def encode_request(
    version: int,
    correlation_id: int,
    client_id: str | None,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: Sequence[tuple[str | None, UUID | None, Sequence[tuple[int, Buffer | None]]]],
) -> list[Buffer]:
    """A whole request as pieces to be written one after the other; batches are passed through, not copied."""
    flexible = version >= FLEXIBLE
    pieces: list[Buffer] = []
    out = bytearray(4) + header.request_header(header.PRODUCE, version, correlation_id, client_id)
    first = out
    out += string(transactional_id, flexible) + _ACKS.pack(acks, timeout_ms) + array(len(topics), flexible)
    for name, topic_id, partitions in topics:
        out += (topic_id or NIL_UUID).bytes if version >= BY_ID else string(name or "", flexible)
        out += array(len(partitions), flexible)
        for partition, batch in partitions:
            out += _COUNT.pack(partition)
            size = -1 if batch is None else len(batch)
            out += uvarint(size + 1) if flexible else _COUNT.pack(size)
            if batch:
                pieces += (out, batch)
                out = bytearray()
            if flexible:
                out += b"\0"
        if flexible:
            out += b"\0"
    if flexible:
        out += b"\0"
    if out:
        pieces.append(out)
    _COUNT.pack_into(first, 0, sum(map(len, pieces)) - 4)
    return pieces


def decode_response(buffer: Buffer, at: int, end: int, version: int) -> ProduceResponse:
    """The body of an answer."""
    reader = Reader(buffer, at, end, version >= FLEXIBLE)
    topics = []
    for _ in reader.array():
        name = None if version >= BY_ID else reader.string()
        topic_id = reader.uuid() if version >= BY_ID else None
        partitions = [_read_result(reader, version) for _ in reader.array()]
        reader.skip_tags()
        topics.append(TopicResult(name, topic_id, partitions))
    throttle_ms = reader.int32()
    endpoints: list[Endpoint] = []
    for tag in reader.tags():
        if tag == 0 and version >= 10:
            endpoints = read_endpoints(reader)
    reader.finish()
    return ProduceResponse(topics, throttle_ms, endpoints)


def _read_result(reader: Reader, version: int) -> PartitionResult:
    partition, error, base_offset = reader.int32(), reader.int16(), reader.int64()
    append_time_ms = reader.int64()
    log_start_offset = reader.int64() if version >= 5 else -1
    record_errors: list[tuple[int, str | None]] = []
    message = leader = None
    if version >= 8:
        for _ in reader.array():
            record_errors.append((reader.int32(), reader.nullable_string()))
            reader.skip_tags()
        message = reader.nullable_string()
    for tag in reader.tags():
        if tag == 0 and version >= 10:
            leader = read_leader(reader)
    return PartitionResult(
        partition, error, base_offset, append_time_ms, log_start_offset, record_errors, message, leader
    )
