"""InitProducerId, 0 to 5, by hand: an idempotent producer asks it before its first batch. Version 3 added the
id and epoch that a producer has already; 4 and 5 allow other errors; 2 is flexible.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.primitives import MAX_ASKED, Reader, string

OLDEST: Final = 0
NEWEST: Final = 5  # kio knows a 6, which Kafka 4.3 does not advertise
_FLEXIBLE: Final = 2

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1

_TIMEOUT = struct.Struct(">i")
_PRODUCER = struct.Struct(">qh")
_ANSWER = struct.Struct(">ihqh")


class InitProducerIdRequest(NamedTuple):
    transactional_id: str | None
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class InitProducerIdResponse(NamedTuple):
    error: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    throttle_ms: int = 0


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> InitProducerIdRequest:
    reader = Reader(buffer, at, end, version >= _FLEXIBLE, MAX_ASKED)
    transactional_id, timeout_ms = reader.nullable_string(), reader.int32()
    producer_id, producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    if version >= 3:
        producer_id, producer_epoch = reader.int64(), reader.int16()
    reader.skip_tags()
    reader.finish()
    return InitProducerIdRequest(transactional_id, timeout_ms, producer_id, producer_epoch)


def encode_response(version: int, correlation_id: int, answer: InitProducerIdResponse) -> bytes:
    body = _ANSWER.pack(answer.throttle_ms, answer.error, answer.producer_id, answer.producer_epoch)
    if version >= _FLEXIBLE:
        body += b"\0"
    return header.answer(header.INIT_PRODUCER_ID, version, correlation_id, body)


def encode_request(version: int, correlation_id: int, client_id: str | None, request: InitProducerIdRequest) -> bytes:
    body = string(request.transactional_id, version >= _FLEXIBLE) + _TIMEOUT.pack(request.timeout_ms)
    if version >= 3:
        body += _PRODUCER.pack(request.producer_id, request.producer_epoch)
    if version >= _FLEXIBLE:
        body += b"\0"
    return header.question(header.INIT_PRODUCER_ID, version, correlation_id, client_id, body)


def decode_response(buffer: Buffer, at: int, end: int, version: int) -> InitProducerIdResponse:
    reader = Reader(buffer, at, end, version >= _FLEXIBLE)
    throttle_ms, error, producer_id, epoch = reader.int32(), reader.int16(), reader.int64(), reader.int16()
    reader.skip_tags()
    reader.finish()
    return InitProducerIdResponse(error, producer_id, epoch, throttle_ms)
