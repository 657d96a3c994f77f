"""LeaveGroup, 0 to 5, by hand: every consumer that closes sends it.

What each version added: 1 throttling, 3 several members, static ones too, 4 flexible encoding, 5 a reason.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.primitives import MAX_ASKED, Reader, array, string

OLDEST: Final = 0
NEWEST: Final = 5
SEVERAL_FROM: Final = 3
_FLEXIBLE: Final = 4

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class LeavingMember(NamedTuple):
    member_id: str
    instance_id: str | None = None


class LeaveGroupRequest(NamedTuple):
    group_id: str
    members: Sequence[LeavingMember]


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> LeaveGroupRequest:
    reader = Reader(buffer, at, end, version >= _FLEXIBLE, MAX_ASKED)
    group_id = reader.string()
    if version < SEVERAL_FROM:
        members = [LeavingMember(reader.string())]
    else:
        members = [_member(reader, version) for _ in reader.array()]
    reader.skip_tags()
    reader.finish()
    return LeaveGroupRequest(group_id, members)


def _member(reader: Reader, version: int) -> LeavingMember:
    member = LeavingMember(reader.string(), reader.nullable_string())
    if version >= 5:
        reader.nullable_string()
    reader.skip_tags()
    return member


def encode_response(
    version: int, correlation_id: int, error: int, members: Sequence[tuple[LeavingMember, int]] = ()
) -> bytes:
    flexible = version >= _FLEXIBLE
    out = bytearray(_INT32.pack(0) if version >= 1 else b"")
    out += _INT16.pack(error)
    if version >= SEVERAL_FROM:
        out += array(len(members), flexible)
        for (member_id, instance_id), code in members:
            out += string(member_id, flexible) + string(instance_id, flexible) + _INT16.pack(code)
            if flexible:
                out += b"\0"
    if flexible:
        out += b"\0"
    return header.answer(header.LEAVE_GROUP, version, correlation_id, out)
