"""OffsetCommit, 2 to 10, by hand: consumers send it every few seconds, careful ones after every record.

What each version added: 3 throttling, 5 took the retention time away, 6 leader epochs, 7 static members, 8 flexible
encoding, 10 topics by id.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.primitives import MAX_ASKED, READ_ERRORS, Reader, array, string, uuid_of

OLDEST: Final = 2
NEWEST: Final = 10
IDS_FROM: Final = 10
_FLEXIBLE: Final = 8
NO_RETENTION: Final = -1

_LONG: Final = 0x80  # a length that takes more than a byte

_INT32 = struct.Struct(">i")
_ASKED_2 = struct.Struct(">iq")
_ASKED_6 = struct.Struct(">iqi")
_CODE = struct.Struct(">ih")
_CODE_8 = struct.Struct(">ihx")

_SINGLE_HEAD = struct.Struct(">iixib")  # size, correlation id, tags, throttling, topics
_SINGLE_TAIL = struct.Struct(">bihxxx")  # partitions, the one, its code, tags of each structure
_SINGLE_BYTES: Final = _SINGLE_HEAD.size + _SINGLE_TAIL.size - 4

Topic = str | UUID


class AskedPosition(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class OffsetCommitRequest(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    topics: Sequence[tuple[Topic, Sequence[AskedPosition]]]


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> OffsetCommitRequest:
    try:
        quick = _quick(buffer, at, end, version) if version >= _FLEXIBLE else None
    except READ_ERRORS:
        quick = None
    return quick or _careful(buffer, at, end, version)


def _quick(buffer: Buffer, at: int, end: int, version: int) -> OffsetCommitRequest | None:
    """What clients usually send: one topic, short texts, no tagged fields. None: not that, or not a request at all;
    steps only go forward, so that it ends where it should says that all of it was there."""
    group_id, at = _short(buffer, at)
    generation = _INT32.unpack_from(buffer, at)[0]
    member_id, at = _short(buffer, at + 4)
    instance_id, at = _short(buffer, at)
    if group_id is None or member_id is None or buffer[at] != 1 + 1:
        return None
    topic: Topic | None
    if version >= IDS_FROM:
        topic, at = uuid_of(bytes(buffer[at + 1 : at + 17])), at + 17
    else:
        topic, at = _short(buffer, at + 1)
    count = buffer[at] - 1
    if topic is None or not 0 <= count < _LONG - 1:
        return None
    at += 1
    asked = []
    for _ in range(count):
        partition, offset, leader_epoch = _ASKED_6.unpack_from(buffer, at)
        metadata, at = _short(buffer, at + 16)
        asked.append(AskedPosition(partition, offset, leader_epoch, metadata))
        if buffer[at]:
            return None
        at += 1
    if buffer[at] or buffer[at + 1] or at + 2 != end:
        return None
    return OffsetCommitRequest(group_id, generation, member_id, instance_id, NO_RETENTION, [(topic, asked)])


def _short(buffer: Buffer, at: int) -> tuple[str | None, int]:
    """A text whose length is one byte; null is None, and a longer one ends the attempt."""
    size = buffer[at]
    if size >= _LONG:
        raise IndexError
    return (str(buffer[at + 1 : at + size], "utf-8") if size else None), at + (size or 1)


def _careful(buffer: Buffer, at: int, end: int, version: int) -> OffsetCommitRequest:
    reader = Reader(buffer, at, end, version >= _FLEXIBLE, MAX_ASKED)
    group_id, generation, member_id = reader.string(), reader.int32(), reader.string()
    instance_id = reader.nullable_string() if version >= 7 else None
    retention_ms = reader.int64() if version <= 4 else NO_RETENTION
    topics: list[tuple[Topic, list[AskedPosition]]] = []
    for _ in reader.array():
        topic: Topic = reader.uuid() if version >= IDS_FROM else reader.string()
        topics.append((topic, [_asked(reader, version) for _ in reader.array()]))
        reader.skip_tags()
    reader.skip_tags()
    reader.finish()
    return OffsetCommitRequest(group_id, generation, member_id, instance_id, retention_ms, topics)


def _asked(reader: Reader, version: int) -> AskedPosition:
    leader_epoch = -1
    if version >= 6:
        partition, offset, leader_epoch = _ASKED_6.unpack_from(reader.buffer, reader.take(16))
    else:
        partition, offset = _ASKED_2.unpack_from(reader.buffer, reader.take(12))
    metadata = reader.nullable_string()
    reader.skip_tags()
    return AskedPosition(partition, offset, leader_epoch, metadata)


def encode_response(
    version: int, correlation_id: int, topics: Sequence[tuple[Topic, Sequence[tuple[int, int]]]]
) -> bytes:
    """A whole answer; of each topic its partitions with their codes."""
    flexible = version >= _FLEXIBLE
    if flexible and len(topics) == 1 and len(topics[0][1]) == 1:
        return _single(correlation_id, *topics[0])
    out = bytearray(_INT32.pack(0) if version >= 3 else b"")
    out += array(len(topics), flexible)
    code = _CODE_8 if flexible else _CODE
    for topic, partitions in topics:
        out += string(topic, flexible) if isinstance(topic, str) else topic.bytes
        out += array(len(partitions), flexible)
        for partition, error in partitions:
            out += code.pack(partition, error)
        if flexible:
            out += b"\0"
    if flexible:
        out += b"\0"
    return header.answer(header.OFFSET_COMMIT, version, correlation_id, out)


def _single(correlation_id: int, topic: Topic, partitions: Sequence[tuple[int, int]]) -> bytes:
    """The usual one, at a third of the cost: one partition, flexible encoding."""
    named = string(topic, True) if isinstance(topic, str) else topic.bytes
    head = _SINGLE_HEAD.pack(_SINGLE_BYTES + len(named), correlation_id, 0, 1 + 1)
    return b"".join((head, named, _SINGLE_TAIL.pack(1 + 1, *partitions[0])))
