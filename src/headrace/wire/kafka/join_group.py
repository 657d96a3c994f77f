"""JoinGroup, 0 to 9, by hand: every member of a group sends it, all at once when the group rebalances.

What each version added: 1 the rebalance timeout, 2 throttling, 4 nothing but the promise that a new member asks twice,
5 static members, 6 flexible encoding, 7 the protocol type in the answer, 8 a reason, 9 an assignment to be skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.primitives import MAX_ASKED, Reader, array, byte_string, string

OLDEST: Final = 0
NEWEST: Final = 9
ASKS_TWICE_FROM: Final = 4
MAY_SKIP_FROM: Final = 9
_FLEXIBLE: Final = 6

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_HEAD = struct.Struct(">hi")  # error, generation


class JoinGroupRequest(NamedTuple):
    group_id: str
    session_ms: int
    rebalance_ms: int
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]


class JoinGroupMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinGroupResponse(NamedTuple):
    error: int
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: Sequence[JoinGroupMember] = ()


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> JoinGroupRequest:
    reader = Reader(buffer, at, end, version >= _FLEXIBLE, MAX_ASKED)
    group_id, session_ms = reader.string(), reader.int32()
    rebalance_ms = reader.int32() if version >= 1 else session_ms
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 5 else None
    protocol_type = reader.string()
    protocols = []
    for _ in reader.array():
        name, metadata = reader.string(), reader.nullable_bytes()
        if metadata is None:
            raise MalformedRequest("a null where bytes have to be")
        protocols.append((name, metadata))
        reader.skip_tags()
    if version >= 8:
        reader.nullable_string()
    reader.skip_tags()
    reader.finish()
    return JoinGroupRequest(group_id, session_ms, rebalance_ms, member_id, instance_id, protocol_type, tuple(protocols))


def encode_response(version: int, correlation_id: int, response: JoinGroupResponse) -> bytes:
    flexible = version >= _FLEXIBLE
    out = bytearray(_INT32.pack(0) if version >= 2 else b"")
    out += _HEAD.pack(response.error, response.generation)
    if version >= 7:
        out += string(response.protocol_type, flexible) + string(response.protocol, flexible)
    else:
        out += string(response.protocol or "", flexible)
    out += string(response.leader, flexible)
    if version >= MAY_SKIP_FROM:
        out.append(response.skip_assignment)
    out += string(response.member_id, flexible) + array(len(response.members), flexible)
    for member_id, instance_id, metadata in response.members:
        out += string(member_id, flexible)
        if version >= 5:
            out += string(instance_id, flexible)
        out += byte_string(metadata, flexible)
        if flexible:
            out += b"\0"
    if flexible:
        out += b"\0"
    return header.answer(header.JOIN_GROUP, version, correlation_id, out)
