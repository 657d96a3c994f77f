"""The records of `__consumer_offsets`, as Kafka writes them, so that its tools read ours.

key, version 1 (and 0)   group, topic, partition        value: a position; null: it is gone
key, version 2           group                          value: a group; null: it is gone

Positions are written as version 3, or 1 when they have an end of their own (which later versions have no room for);
groups as version 3. All older versions are read; what is newer is refused, rather than read wrong. Integers are
big-endian, texts have their length in 2 bytes in front (-1: null), bytes in 4.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from headrace.broker.groups.events import SavedMember, Snapshot
from headrace.broker.groups.positions import NEVER, Position
from headrace.errors import FormatTooNew
from headrace.wire.kafka.primitives import Reader, string

POSITION_KEYS, GROUP_KEY = (0, 1), 2
NEWEST_VALUE = 3

_VERSION = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_POSITION = struct.Struct(">hqi")  # version, offset, leader epoch
_PLAIN_POSITION = struct.Struct(">hqihq")  # the usual: without words beside it
_POSITION_1 = struct.Struct(">hq")
_TIMES = struct.Struct(">qq")
_MEMBER_TIMES = struct.Struct(">ii")


class PositionKey(NamedTuple):
    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    group: str


class SavedGroup(NamedTuple):
    snapshot: Snapshot
    since_ms: int  # when it came to be so; -1: not known


def position_prefix(group: str, topic: str) -> bytes:
    """A position's key without its last four bytes, which are the partition."""
    return _VERSION.pack(1) + string(group, False) + string(topic, False)


def position_key(prefix: bytes, partition: int) -> bytes:
    return prefix + _INT32.pack(partition)


def position_value(position: Position) -> bytes:
    if not position.metadata and position.expires_ms == NEVER:
        return _PLAIN_POSITION.pack(3, position.offset, position.leader_epoch, 0, position.committed_ms)
    metadata = string(position.metadata, False)
    if position.expires_ms != NEVER:
        times = _TIMES.pack(position.committed_ms, position.expires_ms)
        return _POSITION_1.pack(1, position.offset) + metadata + times
    return _POSITION.pack(3, position.offset, position.leader_epoch) + metadata + _INT64.pack(position.committed_ms)


def group_key(group: str) -> bytes:
    return _VERSION.pack(GROUP_KEY) + string(group, False)


def group_value(saved: Snapshot, now_ms: int) -> bytes:
    out = bytearray(_VERSION.pack(3))
    out += string(saved.protocol_type, False) + _INT32.pack(saved.generation)
    out += string(saved.protocol, False) + string(saved.leader, False) + _INT64.pack(now_ms)
    out += _INT32.pack(len(saved.members))
    for member in saved.members:
        out += string(member.member_id, False) + string(member.instance_id, False)
        out += string(member.client_id, False) + string(member.client_host, False)
        out += _MEMBER_TIMES.pack(member.rebalance_ms, member.session_ms)
        out += _INT32.pack(len(member.subscription)) + member.subscription
        out += _INT32.pack(len(member.assignment)) + member.assignment
    return bytes(out)


def read_key(key: bytes) -> PositionKey | GroupKey | None:
    """None: a kind that belongs to protocols that are not served here."""
    reader = Reader(key, 0, len(key), flexible=False)
    version = reader.int16()
    if version in POSITION_KEYS:
        return PositionKey(reader.string(), reader.string(), reader.int32())
    return GroupKey(reader.string()) if version == GROUP_KEY else None


def read_position(value: bytes) -> Position:
    reader = Reader(value, 0, len(value), flexible=False)
    version = _version(reader, "a position")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string()
    committed_ms = reader.int64()
    expires_ms = reader.int64() if version == 1 else NEVER
    return Position(offset, leader_epoch, metadata, committed_ms, expires_ms)


def read_group(value: bytes) -> SavedGroup:
    reader = Reader(value, 0, len(value), flexible=False)
    version = _version(reader, "a group")
    protocol_type, generation = reader.string(), reader.int32()
    protocol, leader = reader.nullable_string(), reader.nullable_string()
    since_ms = reader.int64() if version >= 2 else -1
    members = tuple(_member(reader, version) for _ in reader.array())
    return SavedGroup(Snapshot(protocol_type, generation, protocol, leader, members), since_ms)


def _member(reader: Reader, version: int) -> SavedMember:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_ms = reader.int32() if version >= 1 else 0
    session_ms = reader.int32()
    subscription, assignment = reader.nullable_bytes() or b"", reader.nullable_bytes() or b""
    return SavedMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_ms or session_ms,
        session_ms,
        subscription,
        assignment,
    )


def _version(reader: Reader, what: str) -> int:
    version = reader.int16()
    if not 0 <= version <= NEWEST_VALUE:
        raise FormatTooNew(f"{what} is kept in version {version}; this program reads up to {NEWEST_VALUE}")
    return version
