"""Produce, versions 3 to 13, as a broker sees it (`produce_client` is the other side), by hand: this is where
records come in.

A request is read into positions: the batches stay where the socket put them, so they can be checked and
patched in place and written to the log without a copy. What each version added: 5 the log start offset, 8
errors of single records and their text, 9 flexible encoding, 10 the new leader when it moved, 13 topics by id
instead of by name.

The position may run ahead of the end of the message (the buffer goes on with the next request) but is
compared with it after every partition, before anything read there is used.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from headrace.ports import Buffer
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.leaders import Endpoint, Leader, encode_endpoints, encode_leader
from headrace.wire.kafka.primitives import (
    MAX_ASKED,
    MAX_STRING_BYTES,
    MAX_TAGS,
    NIL_UUID,
    READ_ERRORS,
    array,
    read_uvarint,
    skip_tags,
    string,
    tagged,
    uuid_of,
)

OLDEST: Final = 3
NEWEST: Final = 13
BY_ID: Final = 13
FLEXIBLE: Final = 9

# The longest name whose length and one fits a varint of one byte.
_SHORT_NAME: Final = 126


class TopicData(NamedTuple):
    name: str | None  # None from version 13
    topic_id: UUID | None  # None before it
    # The partition, and where its batches start and end in the buffer; a start of -1 is null.
    partitions: list[tuple[int, int, int]]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicData]


class PartitionResult(NamedTuple):
    partition: int
    error: int = 0
    base_offset: int = -1
    append_time_ms: int = -1  # -1 unless the topic stamps its records itself
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    message: str | None = None
    leader: Leader | None = None


class TopicResult(NamedTuple):
    name: str | None
    topic_id: UUID | None
    partitions: Sequence[PartitionResult]


class ProduceResponse(NamedTuple):
    topics: list[TopicResult]
    throttle_ms: int
    endpoints: list[Endpoint]


_ACKS = struct.Struct(">hi")
_ACKS_AND_COUNT = struct.Struct(">hii")
_COUNT = struct.Struct(">i")
_LENGTH = struct.Struct(">h")
_PARTITION_AND_SIZE = struct.Struct(">ii")
_SIZE_AND_CORRELATION = struct.Struct(">ii")
# A request of one topic and one partition: up to the name of its topic, and from there to its records.
_SINGLE = struct.Struct(">hhiih")
_SINGLE_PARTITION = struct.Struct(">iii")
_SINGLE_9 = struct.Struct(">BhiBB")
_SINGLE_PARTITION_9 = struct.Struct(">Bi")
_SINGLE_13 = struct.Struct(">BhiB16sBi")
_SINGLE_BYTES: Final = 30  # the longest of these, and a length

_RESULT = struct.Struct(">ihqq")
_RESULT_5 = struct.Struct(">ihqqq")


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> ProduceRequest:
    """The body of a request that lies in `buffer` from `at` to `end`."""
    try:
        quick = single_request(buffer, at, end, version)
        if quick is not None:
            return quick
        if version >= FLEXIBLE:
            request, at = _flexible_request(buffer, at, end, version)
        else:
            request, at = _plain_request(buffer, at, end)
    except READ_ERRORS as error:
        raise MalformedRequest(f"a Produce request that cannot be read: {error}") from error
    if at != end:
        raise MalformedRequest(f"a Produce request that ends {end - at} bytes before its frame does")
    return request


def single_request(buffer: Buffer, at: int, end: int, version: int) -> ProduceRequest | None:
    """One topic, one partition, no transaction, which is what nearly every request is: believed when all its
    lengths add up to the end exactly. None when it is something else; the general way decides what.
    """
    if end - at < _SINGLE_BYTES:
        return None
    if version < FLEXIBLE:
        transactional, acks, timeout_ms, topics, size = _SINGLE.unpack_from(buffer, at)
        start = at + _SINGLE.size
        at = start + size
        if transactional != -1 or topics != 1 or size < 0 or at + 12 > end:
            return None
        partitions, partition, size = _SINGLE_PARTITION.unpack_from(buffer, at)
        if partitions != 1 or size < 0 or at + 12 + size != end:
            return None
        topic = TopicData(str(buffer[start:at], "utf-8"), None, [(partition, at + 12, end)])
        return ProduceRequest(None, acks, timeout_ms, [topic])
    if version < BY_ID:
        transactional, acks, timeout_ms, topics, size = _SINGLE_9.unpack_from(buffer, at)
        start = at + _SINGLE_9.size
        at = start + size - 1
        if not 0 < size <= _SHORT_NAME + 1 or at + _SINGLE_PARTITION_9.size > end:
            return None
        raw = bytes(buffer[start:at])
        partitions, partition = _SINGLE_PARTITION_9.unpack_from(buffer, at)
        at += _SINGLE_PARTITION_9.size
    else:
        transactional, acks, timeout_ms, topics, raw, partitions, partition = _SINGLE_13.unpack_from(buffer, at)
        at += _SINGLE_13.size
    if transactional != 0 or topics != 2 or partitions != 2:
        return None
    size, at = read_uvarint(buffer, at)
    if size == 0 or at + size + 2 != end or buffer[end - 3 : end] != b"\0\0\0":  # tagged fields, thrice none
        return None
    batches = [(partition, at, end - 3)]
    topic = TopicData(raw.decode(), None, batches) if version < BY_ID else TopicData(None, uuid_of(raw), batches)
    return ProduceRequest(None, acks, timeout_ms, [topic])


def _plain_request(buffer: Buffer, at: int, end: int) -> tuple[ProduceRequest, int]:
    (size,) = _LENGTH.unpack_from(buffer, at)
    at += 2
    transactional_id = None
    if size >= 0:
        transactional_id = str(buffer[at : at + size], "utf-8")
        at += size
    elif size != -1:
        raise MalformedRequest(f"a transactional id of {size} bytes")
    acks, timeout_ms, count = _ACKS_AND_COUNT.unpack_from(buffer, at)
    at += 10
    topics = []
    elements = _checked(count, min(end - at, MAX_ASKED))
    for _ in range(count):
        (size,) = _LENGTH.unpack_from(buffer, at)
        at += 2 + _checked(size, end - at)
        name = str(buffer[at - size : at], "utf-8")
        (partition_count,) = _COUNT.unpack_from(buffer, at)
        at += 4
        elements += _checked(partition_count, min(end - at, MAX_ASKED - elements))
        partitions = []
        for _ in range(partition_count):
            partition, size = _PARTITION_AND_SIZE.unpack_from(buffer, at)
            at += 8
            if size < 0:
                if size != -1:
                    raise MalformedRequest(f"records of {size} bytes")
                partitions.append((partition, -1, -1))
            else:
                partitions.append((partition, at, at + size))
                at += size
            if at > end:
                raise MalformedRequest("records that run past the end of their request")
        topics.append(TopicData(name, None, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), at


def _flexible_request(buffer: Buffer, at: int, end: int, version: int) -> tuple[ProduceRequest, int]:
    size, at = read_uvarint(buffer, at)
    transactional_id = None
    if size:
        at += _checked(size - 1, min(end - at, MAX_STRING_BYTES))
        transactional_id = str(buffer[at - size + 1 : at], "utf-8")
    acks, timeout_ms = _ACKS.unpack_from(buffer, at)
    count, at = read_uvarint(buffer, at + 6)
    topics = []
    tags_left = MAX_TAGS
    elements = _checked(count - 1, min(end - at, MAX_ASKED))
    for _ in range(count - 1):
        name = topic_id = None
        if version >= BY_ID:
            topic_id = uuid_of(bytes(buffer[at : at + _checked(16, end - at)]))
            at += 16
        else:
            size, at = read_uvarint(buffer, at)
            at += _checked(size - 1, min(end - at, MAX_STRING_BYTES))
            name = str(buffer[at - size + 1 : at], "utf-8")
        partition_count, at = read_uvarint(buffer, at)
        elements += _checked(partition_count - 1, min(end - at, MAX_ASKED - elements))
        partitions = []
        for _ in range(partition_count - 1):
            (partition,) = _COUNT.unpack_from(buffer, at)
            size, at = read_uvarint(buffer, at + 4)
            if size:
                partitions.append((partition, at, at + size - 1))
                at += size - 1
            else:
                partitions.append((partition, -1, -1))
            if at >= end:  # tagged fields follow
                raise MalformedRequest("records that run past the end of their request")
            if buffer[at] == 0:
                at += 1
            else:
                at, tags_left = skip_tags(buffer, at, end, tags_left)
        at, tags_left = skip_tags(buffer, at, end, tags_left)
        topics.append(TopicData(name, topic_id, partitions))
    at, _ = skip_tags(buffer, at, end, tags_left)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), at


def _checked(count: int, left: int) -> int:
    """A length, or a count of things of at least a byte, that fits what is left."""
    if 0 <= count <= left:
        return count
    raise MalformedRequest(f"{count} bytes or elements wanted where there can be {left}")


def encode_response(
    version: int,
    correlation_id: int,
    topics: Sequence[TopicResult],
    throttle_ms: int = 0,
    endpoints: Sequence[Endpoint] = (),
) -> bytes:
    """A whole answer, with its size in front."""
    flexible = version >= FLEXIBLE
    out = bytearray(_SIZE_AND_CORRELATION.pack(0, correlation_id))
    if flexible:
        out += b"\0"
    out += array(len(topics), flexible)
    for name, topic_id, partitions in topics:
        out += (topic_id or NIL_UUID).bytes if version >= BY_ID else string(name or "", flexible)
        out += array(len(partitions), flexible)
        for result in partitions:
            _put_result(out, result, version)
        if flexible:
            out += b"\0"
    out += _COUNT.pack(throttle_ms)
    if flexible:
        out += tagged([(0, encode_endpoints(endpoints))] if endpoints and version >= 10 else [])
    _COUNT.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _put_result(out: bytearray, result: PartitionResult, version: int) -> None:
    partition, error, base_offset, append_time_ms, log_start_offset, record_errors, message, leader = result
    if version < 5:
        out += _RESULT.pack(partition, error, base_offset, append_time_ms)
        return
    out += _RESULT_5.pack(partition, error, base_offset, append_time_ms, log_start_offset)
    if version < 8:
        return
    flexible = version >= FLEXIBLE
    out += array(len(record_errors), flexible)
    for index, text in record_errors:
        out += _COUNT.pack(index) + string(text, flexible)
        if flexible:
            out += b"\0"
    out += string(message, flexible)
    if flexible:
        out += tagged([(0, encode_leader(leader))] if leader is not None and version >= 10 else [])


# In flexible encoding: no errors of records, no text, no tags of the partition, none of the topic.
_NOTHING: Final = b"\1\0\0\0"

# By the shape of the answer and the length of the name. Only names of topics that exist come here, so the
# lengths bound the table.
_layouts: dict[tuple[int, int], struct.Struct] = {}


def encode_single(
    version: int,
    correlation_id: int,
    name: bytes,
    partition: int,
    base_offset: int,
    append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """One topic, one partition, no error, which is what nearly every answer is: all of it in one `pack`.

    `name` is the topic's name in UTF-8, or from version 13 on the bytes of its id.
    """
    size = len(name)
    shape = 5 if version < 8 else 9 if 9 <= version < BY_ID else version
    layout = _layouts.get((shape, size)) or _layout(shape, size)
    rest = layout.size - 4
    if shape == 5 and version >= 5:
        return layout.pack(
            rest, correlation_id, 1, size, name,
            1, partition, 0, base_offset, append_time_ms, log_start_offset, 0,
        )  # fmt: skip
    if shape == 9 and size <= _SHORT_NAME:
        return layout.pack(
            rest, correlation_id, 0, 2, size + 1, name,
            2, partition, 0, base_offset, append_time_ms, log_start_offset, _NOTHING, 0,
        )  # fmt: skip
    if shape == 13:
        return layout.pack(
            rest, correlation_id, 0, 2, name,
            2, partition, 0, base_offset, append_time_ms, log_start_offset, _NOTHING, 0,
        )  # fmt: skip
    if shape == 8:
        return layout.pack(
            rest, correlation_id, 1, size, name,
            1, partition, 0, base_offset, append_time_ms, log_start_offset, 0, -1, 0,
        )  # fmt: skip
    result = PartitionResult(partition, 0, base_offset, append_time_ms, log_start_offset)
    return encode_response(version, correlation_id, [TopicResult(name.decode(), None, [result])])


def _layout(shape: int, size: int) -> struct.Struct:
    layout = struct.Struct(
        {
            5: f">iiih{size}siihqqqi",
            8: f">iiih{size}siihqqqihi",
            9: f">iiBBB{size}sBihqqq4six",
            13: f">iiBB{size}sBihqqq4six",
        }[shape]
    )
    _layouts[shape, size] = layout
    return layout
