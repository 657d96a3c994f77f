"""Fetch of one partition by a consumer without a session, versions 13 to 18, request and answer: what a client that
reads one partition asks again and again, and nothing in it but numbers at fixed places. All else is `fetch`'s.

The twins of two native kernels; `headrace.wire.kafka.kernel` has those in use."""

from __future__ import annotations

import struct
from typing import Final

from headrace.ports import Buffer
from headrace.wire.kafka.fetch import BY_ID, CONSUMER, NEWEST, READ_COMMITTED, REPLICA_STATE
from headrace.wire.kafka.header import FETCH
from headrace.wire.kafka.primitives import uvarint

# correlation id, min bytes, max bytes, isolation level, the topic's id, partition, leader epoch, offset, max bytes of
# the partition
SingleFetch = tuple[int, int, int, int, bytes, int, int, int, int]

_HEAD = struct.Struct(">hhih")  # api key, version, correlation id, length of the client id

# [replica id,] wait, min bytes, max bytes, isolation, no session, one topic, its id, one partition, its number, leader
# epoch, offset, last epoch, log start offset, max bytes; then no tags twice, nothing forgotten, no rack, no tags.
_REQUEST_13 = struct.Struct(">iiiib8sB16sBiiqiqi5s")
_REQUEST_15 = struct.Struct(">iiib8sB16sBiiqiqi5s")
_NO_SESSION: Final = b"\0\0\0\0\xff\xff\xff\xff"  # no id, and no wish for one
_NO_EPOCH: Final = -1
_REST: Final = b"\0\0\1\1\0"
_ONE: Final = 2  # as the length of an array

# Size, correlation id, no tags, throttling, error, session, one topic, its id, one partition, its number, error, high
# watermark, last stable offset, log start offset, aborted transactions (null or none), preferred replica.
_ANSWER = struct.Struct(">iiBihiB16sBihqqqBi")
NO_TAGS: Final = b"\0\0\0"  # of the partition, the topic, the answer: what stands behind the records
_NOBODY: Final = -1


def decode_single(buffer: Buffer, at: int, end: int) -> SingleFetch | None:
    """The request that fills `at` to `end` (its frame without the size). None: it is something else."""
    if not 0 <= at <= end <= len(buffer):
        raise ValueError(f"{at} to {end} is not within the {len(buffer)} bytes of the buffer")
    if end - at < _HEAD.size:
        return None
    key, version, correlation_id, client_id_bytes = _HEAD.unpack_from(buffer, at)
    if key != FETCH or not BY_ID <= version <= NEWEST or client_id_bytes < -1:
        return None
    tags = at + _HEAD.size + max(0, client_id_bytes)
    if tags >= end or buffer[tags] != 0:
        return None
    try:
        str(buffer[at + _HEAD.size : tags], "utf-8")
    except UnicodeDecodeError:
        return None
    request = _REQUEST_15 if version >= REPLICA_STATE else _REQUEST_13
    if end - tags - 1 != request.size:
        return None
    fields = request.unpack_from(buffer, tags + 1)
    if version < REPLICA_STATE:
        if fields[0] != CONSUMER:
            return None
        fields = fields[1:]
    (
        _, min_bytes, max_bytes, isolation, session, topics, topic_id, partitions, partition, leader_epoch, offset,
        last_epoch, _, partition_max_bytes, nothing,
    ) = fields  # fmt: skip
    if session != _NO_SESSION or (topics, partitions) != (_ONE, _ONE) or last_epoch != _NO_EPOCH or nothing != _REST:
        return None
    return (
        correlation_id, min_bytes, max_bytes, isolation, topic_id, partition, leader_epoch, offset, partition_max_bytes,
    )  # fmt: skip


def single_head(asked: SingleFetch, high_watermark: int, stable_offset: int, log_start_offset: int, size: int) -> bytes:
    """What stands before so many bytes of records in the answer, with no error and no aborted transaction among
    them."""
    correlation_id, _, _, isolation, topic_id, partition, _, _, _ = asked
    length = uvarint(size + 1)
    whole = _ANSWER.size - 4 + len(length) + size + len(NO_TAGS)
    head = _ANSWER.pack(
        whole, correlation_id, 0, 0, 0, 0, _ONE, topic_id, _ONE, partition, 0, high_watermark, stable_offset,
        log_start_offset, 1 if isolation == READ_COMMITTED else 0, _NOBODY,
    )  # fmt: skip
    return head + length
