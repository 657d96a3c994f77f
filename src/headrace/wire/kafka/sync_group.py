"""SyncGroup, 0 to 5, by hand: every member of a group sends it, all at once when the group rebalances.

What each version added: 1 throttling, 3 static members, 4 flexible encoding, 5 the protocol, to be compared.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.primitives import MAX_ASKED, Reader, byte_string, string

OLDEST: Final = 0
NEWEST: Final = 5
_FLEXIBLE: Final = 4

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class SyncGroupRequest(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]


class SyncGroupResponse(NamedTuple):
    error: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> SyncGroupRequest:
    reader = Reader(buffer, at, end, version >= _FLEXIBLE, MAX_ASKED)
    group_id, generation, member_id = reader.string(), reader.int32(), reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    protocol_type = reader.nullable_string() if version >= 5 else None
    protocol = reader.nullable_string() if version >= 5 else None
    assignments = {}
    for _ in reader.array():
        name, assignment = reader.string(), reader.nullable_bytes()
        if assignment is None:
            raise MalformedRequest("a null where bytes have to be")
        assignments[name] = assignment
        reader.skip_tags()
    reader.skip_tags()
    reader.finish()
    return SyncGroupRequest(group_id, generation, member_id, instance_id, protocol_type, protocol, assignments)


def encode_response(version: int, correlation_id: int, response: SyncGroupResponse) -> bytes:
    flexible = version >= _FLEXIBLE
    out = bytearray(_INT32.pack(0) if version >= 1 else b"")
    out += _INT16.pack(response.error)
    if version >= 5:
        out += string(response.protocol_type, flexible) + string(response.protocol, flexible)
    out += byte_string(response.assignment, flexible)
    if flexible:
        out += b"\0"
    return header.answer(header.SYNC_GROUP, version, correlation_id, out)
