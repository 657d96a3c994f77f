"""Fetch, versions 4 to 18, as a broker sees it (`fetch_client` is the other side), by hand: this is where
records go out.

An answer is a list of buffers, to be written one after the other: the batches that the log handed out go
through untouched, between short pieces made here. What each version added: 5 the log start offset, 7 sessions
and forgotten topics, 9 and 12 leader epochs, 11 racks, 12 flexible encoding, 13 topics by id, 15 the
replica's state as a tagged field, 16 addresses of new leaders, 17 and 18 what a follower tells of itself.

Positions may run ahead of the end of the message, and are compared with it before anything read there is
used.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from headrace.ports import Buffer, Piece, Unseen
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.leaders import Endpoint, Leader, encode_endpoints, encode_leader
from headrace.wire.kafka.primitives import MAX_ASKED, NIL_UUID, READ_ERRORS, Reader, array, string, tagged, uvarint

OLDEST: Final = 4
NEWEST: Final = 18
FLEXIBLE: Final = 12
BY_ID: Final = 13
REPLICA_STATE: Final = 15

CONSUMER: Final = -1  # the replica id of one that is none
READ_COMMITTED: Final = 1  # as an isolation level
NO_HIGH_WATERMARK: Final = (1 << 63) - 1  # a follower that does not tell
MAX_MAX_BYTES: Final = (1 << 31) - 1


class FetchPartition(NamedTuple):
    """Fields in the order of the wire from version 12 on, so that one `unpack` makes it."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int
    high_watermark: int = NO_HIGH_WATERMARK
    directory_id: UUID | None = None


class FetchTopic(NamedTuple):
    name: str | None  # None from version 13
    topic_id: UUID | None  # None before it
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    name: str | None
    topic_id: UUID | None
    partitions: list[int]


class FetchRequest(NamedTuple):
    replica_id: int = CONSUMER
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = MAX_MAX_BYTES
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: Sequence[FetchTopic] = ()
    forgotten: Sequence[ForgottenTopic] = ()
    rack_id: str = ""
    cluster_id: str | None = None
    replica_epoch: int = -1


class FetchedPartition(NamedTuple):
    partition: int
    error: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    # Whole batches. None is null, which Kafka itself never sends: some clients stumble over it.
    pieces: Sequence[Buffer] | None = ()
    size: int = 0  # of all pieces
    # (producer id, first offset) of aborted transactions; None unless read_committed was asked for.
    aborted: Sequence[tuple[int, int]] | None = None
    preferred_replica: int = -1
    diverging: tuple[int, int] | None = None  # (epoch, end offset)
    leader: Leader | None = None
    snapshot: tuple[int, int] | None = None  # (end offset, epoch)
    unseen: Unseen | None = None  # whole batches instead of pieces, to be sent from where they are


class FetchedTopic(NamedTuple):
    name: str | None
    topic_id: UUID | None
    partitions: Sequence[FetchedPartition]


class FetchResponse(NamedTuple):
    throttle_ms: int
    error: int
    session_id: int
    topics: list[FetchedTopic]
    endpoints: list[Endpoint]


_INT32 = struct.Struct(">i")
_SIZE_AND_CORRELATION = struct.Struct(">ii")
_THROTTLE_ERROR_SESSION = struct.Struct(">ihi")
_EPOCH_AND_OFFSET = struct.Struct(">iqx")
_OFFSET_AND_EPOCH = struct.Struct(">qix")
_PRODUCER_AND_OFFSET = struct.Struct(">qq")
_PRODUCER_AND_OFFSET_TAGS = struct.Struct(">qqx")

# What a request begins with: [replica id,] wait, min bytes, max bytes, isolation[, session, epoch].
HEAD_4 = struct.Struct(">iiiib")
HEAD_7 = struct.Struct(">iiiibii")
HEAD_15 = struct.Struct(">iiibii")

# A partition asked for: [leader epoch,] offset, [last epoch,] [log start offset,] max bytes.
ASKED_4 = struct.Struct(">iqi")
ASKED_5 = struct.Struct(">iqqi")
ASKED_9 = struct.Struct(">iiqqi")
ASKED_12 = struct.Struct(">iiqiqi")

# A partition's answer up to its aborted transactions, and on to its records.
_FETCHED_4 = struct.Struct(">ihqq")
_FETCHED_5 = struct.Struct(">ihqqq")
_FETCHED_12 = struct.Struct(">ihqqqBi")


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> FetchRequest:
    """The body of a request that lies in `buffer` from `at` to `end`."""
    reader = Reader(buffer, at, end, version >= FLEXIBLE, MAX_ASKED)
    try:
        request = _read_request(reader, version)
    except READ_ERRORS as error:
        raise MalformedRequest(f"a Fetch request that cannot be read: {error}") from error
    reader.finish()
    return request


def _read_request(reader: Reader, version: int) -> FetchRequest:
    replica_id, session_id, session_epoch = CONSUMER, 0, -1
    if version >= REPLICA_STATE:
        wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch = HEAD_15.unpack_from(
            reader.buffer, reader.take(HEAD_15.size)
        )
    elif version >= 7:
        replica_id, wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch = HEAD_7.unpack_from(
            reader.buffer, reader.take(HEAD_7.size)
        )
    else:
        replica_id, wait_ms, min_bytes, max_bytes, isolation = HEAD_4.unpack_from(
            reader.buffer, reader.take(HEAD_4.size)
        )
    topics = [_read_topic(reader, version) for _ in reader.array()]
    forgotten: Sequence[ForgottenTopic] = ()
    if version >= 7:
        forgotten = [_read_forgotten(reader, version) for _ in reader.array()]
    rack_id = reader.string() if version >= 11 else ""
    cluster_id, replica_epoch = None, -1
    for tag in reader.tags():
        if tag == 0:
            cluster_id = reader.nullable_string()
        elif tag == 1 and version >= REPLICA_STATE:
            replica_id, replica_epoch = reader.int32(), reader.int64()
            reader.skip_tags()
    return FetchRequest(
        replica_id, wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch, topics, forgotten,
        rack_id, cluster_id, replica_epoch,
    )  # fmt: skip


def _read_topic(reader: Reader, version: int) -> FetchTopic:
    name = None if version >= BY_ID else reader.string()
    topic_id = reader.uuid() if version >= BY_ID else None
    rounds = reader.array()
    if version >= FLEXIBLE:
        partitions = [_read_flexible_partition(reader, version) for _ in rounds]
        reader.skip_tags()
        return FetchTopic(name, topic_id, partitions)
    return FetchTopic(name, topic_id, [_read_plain_partition(reader, version) for _ in rounds])


def _read_plain_partition(reader: Reader, version: int) -> FetchPartition:
    buffer, epoch, log_start_offset = reader.buffer, -1, -1
    if version >= 9:
        partition, epoch, offset, log_start_offset, max_bytes = ASKED_9.unpack_from(buffer, reader.take(28))
    elif version >= 5:
        partition, offset, log_start_offset, max_bytes = ASKED_5.unpack_from(buffer, reader.take(24))
    else:
        partition, offset, max_bytes = ASKED_4.unpack_from(buffer, reader.take(16))
    return FetchPartition(partition, epoch, offset, -1, log_start_offset, max_bytes)


def _read_flexible_partition(reader: Reader, version: int) -> FetchPartition:
    buffer = reader.buffer
    at = reader.take(ASKED_12.size + 1)  # and one byte at least of tagged fields
    asked = FetchPartition(*ASKED_12.unpack_from(buffer, at))
    if buffer[at + ASKED_12.size] == 0:
        return asked
    reader.at -= 1
    directory_id, high_watermark = None, NO_HIGH_WATERMARK
    for tag in reader.tags():
        if tag == 0 and version >= 17:
            directory_id = reader.uuid()
        elif tag == 1 and version >= 18:
            high_watermark = reader.int64()
    return asked._replace(directory_id=directory_id, high_watermark=high_watermark)


def _read_forgotten(reader: Reader, version: int) -> ForgottenTopic:
    name = None if version >= BY_ID else reader.string()
    topic_id = reader.uuid() if version >= BY_ID else None
    partitions = [reader.int32() for _ in reader.array()]
    reader.skip_tags()
    return ForgottenTopic(name, topic_id, partitions)


def encode_response(
    version: int,
    correlation_id: int,
    throttle_ms: int,
    error: int,
    session_id: int,
    topics: Sequence[FetchedTopic],
    endpoints: Sequence[Endpoint] = (),
) -> list[Piece]:
    """A whole answer, with its size in front, as buffers to be written one after the other."""
    flexible = version >= FLEXIBLE
    first = out = bytearray(_SIZE_AND_CORRELATION.pack(0, correlation_id))
    if flexible:
        out += b"\0"
    if version >= 7:
        out += _THROTTLE_ERROR_SESSION.pack(throttle_ms, error, session_id)
    else:
        out += _INT32.pack(throttle_ms)
    out += array(len(topics), flexible)
    buffers: list[Piece] = []
    size = 0
    for name, topic_id, partitions in topics:
        out += (topic_id or NIL_UUID).bytes if version >= BY_ID else string(name or "", flexible)
        out += array(len(partitions), flexible)
        for fetched in partitions:
            _put_fetched(out, fetched, version)
            if fetched.size:
                buffers.append(out)
                buffers += fetched.pieces or () if fetched.unseen is None else (fetched.unseen,)
                size += len(out) + fetched.size
                out = bytearray()
            if flexible:
                out += _partition_tags(fetched)
        if flexible:
            out += b"\0"
    if flexible:
        out += tagged([(0, encode_endpoints(endpoints))]) if endpoints and version >= 16 else b"\0"
    if out:
        buffers.append(out)
        size += len(out)
    _INT32.pack_into(first, 0, size - 4)
    return buffers


def _put_fetched(out: bytearray, fetched: FetchedPartition, version: int) -> None:
    """All of a partition's answer up to its records; their size is the last of it."""
    partition, error, high_watermark, last_stable, log_start, pieces, size, aborted, preferred, *_ = fetched
    if pieces is None:
        size = -1
    flexible = version >= FLEXIBLE
    if flexible and aborted is None:  # the usual one, at once
        out += _FETCHED_12.pack(partition, error, high_watermark, last_stable, log_start, 0, preferred)
        out += uvarint(size + 1)
        return
    if version >= 5:
        out += _FETCHED_5.pack(partition, error, high_watermark, last_stable, log_start)
    else:
        out += _FETCHED_4.pack(partition, error, high_watermark, last_stable)
    out += array(None if aborted is None else len(aborted), flexible)
    if aborted:
        one = _PRODUCER_AND_OFFSET_TAGS if flexible else _PRODUCER_AND_OFFSET
        for producer_id, first_offset in aborted:
            out += one.pack(producer_id, first_offset)
    if version >= 11:
        out += _INT32.pack(preferred)
    out += uvarint(size + 1) if flexible else _INT32.pack(size)


def _partition_tags(fetched: FetchedPartition) -> bytes:
    if fetched.diverging is None and fetched.leader is None and fetched.snapshot is None:
        return b"\0"
    fields = []
    if fetched.diverging is not None:
        fields.append((0, _EPOCH_AND_OFFSET.pack(*fetched.diverging)))
    if fetched.leader is not None:
        fields.append((1, encode_leader(fetched.leader)))
    if fetched.snapshot is not None:
        fields.append((2, _OFFSET_AND_EPOCH.pack(*fetched.snapshot)))
    return tagged(fields)
