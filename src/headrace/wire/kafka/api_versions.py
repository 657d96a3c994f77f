"""ApiVersions, 0 to 4, by hand: the first thing that every client asks, so it must not wait for the import of
a library.

The answer's header is plain in every version, and the answer to a version that we do not know is that of
version 0: a client reads both before it knows what we speak.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.primitives import MAX_ASKED, Reader, array, string

OLDEST: Final = 0
NEWEST: Final = 4
_FLEXIBLE: Final = 3

_ERROR = struct.Struct(">h")
_THROTTLE = struct.Struct(">i")
_RANGE = struct.Struct(">hhh")
_FLEXIBLE_RANGE = struct.Struct(">hhhx")


class ApiVersionsRequest(NamedTuple):
    """Who asks; empty before version 3."""

    software_name: str = ""
    software_version: str = ""


class ApiRange(NamedTuple):
    key: int
    oldest: int
    newest: int


class ApiVersionsResponse(NamedTuple):
    error: int
    ranges: list[ApiRange]
    throttle_ms: int = 0


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> ApiVersionsRequest:
    reader = Reader(buffer, at, end, version >= _FLEXIBLE, MAX_ASKED)
    request = ApiVersionsRequest()
    if version >= _FLEXIBLE:
        request = ApiVersionsRequest(reader.string(), reader.string())
        reader.skip_tags()
    reader.finish()
    return request


def encode_response(
    version: int, correlation_id: int, error: int, ranges: Sequence[ApiRange], throttle_ms: int = 0
) -> bytes:
    """A whole answer. No features are told: none of Kafka's that a client could ask for by them are here."""
    flexible = version >= _FLEXIBLE
    one = _FLEXIBLE_RANGE if flexible else _RANGE
    body = bytearray(_ERROR.pack(error) + array(len(ranges), flexible))
    for api in ranges:
        body += one.pack(*api)
    if version >= 1:
        body += _THROTTLE.pack(throttle_ms)
    if flexible:
        body += b"\0"
    return header.answer(header.API_VERSIONS, version, correlation_id, body)


def encode_request(version: int, correlation_id: int, client_id: str | None, request: ApiVersionsRequest) -> bytes:
    body = b""
    if version >= _FLEXIBLE:
        body = string(request.software_name, True) + string(request.software_version, True) + b"\0"
    return header.question(header.API_VERSIONS, version, correlation_id, client_id, body)


def decode_response(buffer: Buffer, at: int, end: int, version: int) -> ApiVersionsResponse:
    reader = Reader(buffer, at, end, version >= _FLEXIBLE)
    error, ranges = reader.int16(), []
    for _ in reader.array():
        ranges.append(ApiRange(reader.int16(), reader.int16(), reader.int16()))
        reader.skip_tags()
    throttle_ms = reader.int32() if version >= 1 else 0
    reader.skip_tags()
    reader.finish()
    return ApiVersionsResponse(error, ranges, throttle_ms)
