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
from headrace.wire.kafka.primitives import MAX_ASKED, Reader, array, string, tagged

OLDEST: Final = 0
NEWEST: Final = 4
LEVELS_FROM: Final = 4  # of features whose lowest level is 0
_FLEXIBLE: Final = 3
_FINAL_TAG: Final = 2

_ERROR = struct.Struct(">h")
_THROTTLE = struct.Struct(">i")
_RANGE = struct.Struct(">hhh")
_LEVELS = struct.Struct(">hhx")
_EPOCH = struct.Struct(">q")
_FLEXIBLE_RANGE = struct.Struct(">hhhx")


class ApiVersionsRequest(NamedTuple):
    """Who asks; empty before version 3."""

    software_name: str = ""
    software_version: str = ""


class ApiRange(NamedTuple):
    key: int
    oldest: int
    newest: int


class Feature(NamedTuple):
    """One that has levels, and the level that is in force in the cluster."""

    name: str
    lowest: int
    highest: int
    level: int


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
    version: int,
    correlation_id: int,
    error: int,
    ranges: Sequence[ApiRange],
    throttle_ms: int = 0,
    features: Sequence[Feature] = (),
) -> bytes:
    """A whole answer. Features are told from version 3 on, in tagged fields."""
    flexible = version >= _FLEXIBLE
    one = _FLEXIBLE_RANGE if flexible else _RANGE
    body = bytearray(_ERROR.pack(error) + array(len(ranges), flexible))
    for api in ranges:
        body += one.pack(*api)
    if version >= 1:
        body += _THROTTLE.pack(throttle_ms)
    if flexible:
        body += _features(features, version)
    return header.answer(header.API_VERSIONS, version, correlation_id, body)


def _features(features: Sequence[Feature], version: int) -> bytes:
    """Which there are, and at which level each is: of no other meaning than that a client may rely on it. A client that
    speaks version 3 stumbles over one whose lowest level is 0, so it is not told of those."""
    told = [feature for feature in features if version > _FLEXIBLE or feature.lowest]
    if not told:
        return b"\0"
    supported, final = bytearray(array(len(told), True)), bytearray(array(len(told), True))
    for name, lowest, highest, level in told:
        supported += string(name, True) + _LEVELS.pack(lowest, highest)
        final += string(name, True) + _LEVELS.pack(level, level)
    return tagged([(0, bytes(supported)), (1, _EPOCH.pack(0)), (_FINAL_TAG, bytes(final))])


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


def decode_levels(buffer: Buffer, at: int, end: int, version: int) -> dict[str, int]:
    """Of an answer the features alone: the level that is in force of each."""
    reader = Reader(buffer, at, end, version >= _FLEXIBLE)
    reader.int16()
    for _ in reader.array():
        reader.take(_RANGE.size)
        reader.skip_tags()
    if version >= 1:
        reader.int32()
    found: dict[str, int] = {}
    for tag in reader.tags():
        if tag == _FINAL_TAG:
            for _ in reader.array():
                name, highest, _ = reader.string(), reader.int16(), reader.int16()
                reader.skip_tags()
                found[name] = highest
    reader.finish()
    return found
