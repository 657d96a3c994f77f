"""Heartbeat, 0 to 4, by hand: every member of every group sends one every few seconds.

What each version added: 1 throttling, 3 static members, 4 flexible encoding.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from headrace.ports import Buffer
from headrace.wire.kafka.primitives import Reader

OLDEST: Final = 0
NEWEST: Final = 4
_FLEXIBLE: Final = 4

_ANSWER_0 = struct.Struct(">iih")  # size, correlation id, error
_ANSWER_1 = struct.Struct(">iiih")  # with throttling
_ANSWER_4 = struct.Struct(">iixihx")  # with tagged fields


class HeartbeatRequest(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> HeartbeatRequest:
    reader = Reader(buffer, at, end, version >= _FLEXIBLE)
    group_id, generation, member_id = reader.string(), reader.int32(), reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    reader.skip_tags()
    reader.finish()
    return HeartbeatRequest(group_id, generation, member_id, instance_id)


def encode_response(version: int, correlation_id: int, error: int) -> bytes:
    """A whole answer."""
    if version >= _FLEXIBLE:
        return _ANSWER_4.pack(_ANSWER_4.size - 4, correlation_id, 0, error)
    if version >= 1:
        return _ANSWER_1.pack(_ANSWER_1.size - 4, correlation_id, 0, error)
    return _ANSWER_0.pack(_ANSWER_0.size - 4, correlation_id, error)
