"""Fetch of one partition by a consumer without a session, versions 13 to 18, request and answer: what a client that
reads one partition asks again and again, and nothing in it but numbers at fixed places. All else is `fetch`'s."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.ports import Buffer, Piece
from headrace.wire.kafka.fetch import BY_ID, CONSUMER, REPLICA_STATE
from headrace.wire.kafka.primitives import uvarint

# [replica id,] wait, min bytes, max bytes, isolation, no session, one topic, its id, one partition, its number, leader
# epoch, offset, last epoch, log start offset, max bytes; then no tags twice, nothing forgotten, no rack, no tags.
_REQUEST_13 = struct.Struct(">iiiib8sB16sBiiqiqi5s")
_REQUEST_15 = struct.Struct(">iiib8sB16sBiiqiqi5s")
_NO_SESSION: Final = b"\0\0\0\0\xff\xff\xff\xff"  # no id, and no wish for one
_REST: Final = b"\0\0\1\1\0"
_ONE: Final = 2  # as the length of an array

# Size, correlation id, no tags, throttling, error, session, one topic, its id, one partition, its number, error, high
# watermark, last stable offset, log start offset, aborted transactions (null or none), preferred replica.
_ANSWER = struct.Struct(">iiBihiB16sBihqqqBi")
_NO_TAGS: Final = b"\0\0\0"  # of the partition, the topic, the answer
_NOBODY: Final = -1


class SingleFetch(NamedTuple):
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    topic_id: bytes
    partition: int
    leader_epoch: int
    offset: int
    last_epoch: int
    partition_max_bytes: int


def decode_single(buffer: Buffer, at: int, end: int, version: int) -> SingleFetch | None:
    """None: it is something else."""
    if version >= REPLICA_STATE:
        if end - at != _REQUEST_15.size:
            return None
        fields = _REQUEST_15.unpack_from(buffer, at)
    else:
        if version < BY_ID or end - at != _REQUEST_13.size:
            return None
        replica_id, *rest = _REQUEST_13.unpack_from(buffer, at)
        if replica_id != CONSUMER:
            return None
        fields = tuple(rest)
    (
        wait_ms, min_bytes, max_bytes, isolation, session, topics, topic_id, partitions, partition, leader_epoch,
        offset, last_epoch, _, partition_max_bytes, nothing,
    ) = fields  # fmt: skip
    if session != _NO_SESSION or topics != _ONE or partitions != _ONE or nothing != _REST:
        return None
    return SingleFetch(
        wait_ms, min_bytes, max_bytes, isolation, topic_id, partition, leader_epoch, offset, last_epoch,
        partition_max_bytes,
    )  # fmt: skip


def encode_single(
    correlation_id: int,
    topic_id: bytes,
    partition: int,
    high_watermark: int,
    stable_offset: int,
    log_start_offset: int,
    is_committed: bool,
    pieces: Sequence[Piece],
    size: int,
) -> list[Piece]:
    """The answer with these records, no error, and no aborted transaction among them."""
    length = uvarint(size + 1)
    whole = _ANSWER.size - 4 + len(length) + size + len(_NO_TAGS)
    head = _ANSWER.pack(
        whole, correlation_id, 0, 0, 0, 0, _ONE, topic_id, _ONE,
        partition, 0, high_watermark, stable_offset, log_start_offset, 1 if is_committed else 0, _NOBODY,
    )  # fmt: skip
    return [head + length, *pieces, _NO_TAGS]
