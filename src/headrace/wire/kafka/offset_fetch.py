"""OffsetFetch, 1 to 10, by hand: every member of a group asks it for what it was assigned.

What each version added: 2 all topics of a group (null) and an error of its own, 3 throttling, 5 leader epochs,
6 flexible encoding, 7 only settled positions, 8 several groups, 9 who asks, 10 topics by id.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.primitives import MAX_ASKED, Reader, array, string

OLDEST: Final = 1
NEWEST: Final = 10
SEVERAL_FROM: Final = 8
IDS_FROM: Final = 10
_FLEXIBLE: Final = 6

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_POSITION_1 = struct.Struct(">iq")
_POSITION_5 = struct.Struct(">iqi")

Topic = str | UUID


class AskedGroup(NamedTuple):
    group_id: str
    topics: Sequence[tuple[Topic, Sequence[int]]] | None  # None: all that there are
    member_id: str | None = None
    member_epoch: int = -1


class OffsetFetchRequest(NamedTuple):
    groups: Sequence[AskedGroup]
    require_stable: bool = False


class FoundPosition(NamedTuple):
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str | None = ""
    error: int = 0


class FoundGroup(NamedTuple):
    group_id: str
    topics: Sequence[tuple[Topic, Sequence[FoundPosition]]] = ()
    error: int = 0


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> OffsetFetchRequest:
    reader = Reader(buffer, at, end, version >= _FLEXIBLE, MAX_ASKED)
    if version < SEVERAL_FROM:
        groups = [AskedGroup(reader.string(), _topics(reader, version))]
    else:
        groups = [_group(reader, version) for _ in reader.array()]
    require_stable = version >= 7 and reader.boolean()
    reader.skip_tags()
    reader.finish()
    return OffsetFetchRequest(groups, require_stable)


def _group(reader: Reader, version: int) -> AskedGroup:
    group_id = reader.string()
    member_id = reader.nullable_string() if version >= 9 else None
    member_epoch = reader.int32() if version >= 9 else -1
    topics = _topics(reader, version)
    reader.skip_tags()
    return AskedGroup(group_id, topics, member_id, member_epoch)


def _topics(reader: Reader, version: int) -> list[tuple[Topic, list[int]]] | None:
    rounds = reader.nullable_array() if version >= 2 else reader.array()
    if rounds is None:
        return None
    topics: list[tuple[Topic, list[int]]] = []
    for _ in rounds:
        topic: Topic = reader.uuid() if version >= IDS_FROM else reader.string()
        topics.append((topic, [reader.int32() for _ in reader.array()]))
        reader.skip_tags()
    return topics


def encode_response(version: int, correlation_id: int, groups: Sequence[FoundGroup]) -> bytes:
    """A whole answer; before version 8 there is exactly one group in it."""
    flexible = version >= _FLEXIBLE
    out = bytearray(_INT32.pack(0) if version >= 3 else b"")
    if version >= SEVERAL_FROM:
        out += array(len(groups), flexible)
        for group in groups:
            out += string(group.group_id, flexible)
            _write_topics(out, version, group)
            out += _INT16.pack(group.error) + b"\0"
    else:
        (group,) = groups
        _write_topics(out, version, group)
        if version >= 2:
            out += _INT16.pack(group.error)
    if flexible:
        out += b"\0"
    return header.answer(header.OFFSET_FETCH, version, correlation_id, out)


def _write_topics(out: bytearray, version: int, group: FoundGroup) -> None:
    flexible = version >= _FLEXIBLE
    out += array(len(group.topics), flexible)
    for topic, partitions in group.topics:
        out += string(topic, flexible) if isinstance(topic, str) else topic.bytes
        out += array(len(partitions), flexible)
        for partition, offset, leader_epoch, metadata, error in partitions:
            if version >= 5:
                out += _POSITION_5.pack(partition, offset, leader_epoch)
            else:
                out += _POSITION_1.pack(partition, offset)
            out += string(metadata, flexible) + _INT16.pack(error)
            if flexible:
                out += b"\0"
        if flexible:
            out += b"\0"
