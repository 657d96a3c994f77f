"""The short way of a Fetch of one partition, when there is enough to answer it at once: as `single` for Produce, for
a megabyte that was just copied has driven our code out of the processor's cache. All else is `api/fetch`'s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.doors.kafka.answers import Answer
from headrace.doors.kafka.api.fetch import READ_COMMITTED
from headrace.errors import HeadraceError
from headrace.log.reader import ReadResult
from headrace.ports import Piece
from headrace.wire.kafka.fetch_single import decode_single, encode_single
from headrace.wire.kafka.header import FETCH, RequestHeader

if TYPE_CHECKING:
    from headrace.doors.kafka.connection import Connection

NO_EPOCH = -1


def answer(connection: Connection, buffer: memoryview, end: int, header: RequestHeader) -> Answer | None:
    """None: it is for the general way, and nothing was done but to look."""
    asked = decode_single(buffer, header.end, end, header.version)
    if asked is None:
        return None
    _, min_bytes, max_bytes, isolation, topic_id, index, leader_epoch, offset, last_epoch, partition_bytes = asked
    door, began = connection.door, connection.now()
    topic = connection.broker.topic_by_id(topic_id)
    if topic is None or not 0 <= index < len(topic.partitions) or last_epoch != NO_EPOCH:
        return None
    partition = topic.partitions[index]
    log = partition.log
    if log is None or leader_epoch not in (NO_EPOCH, partition.leader_epoch):
        return None
    is_committed = isolation == READ_COMMITTED
    if is_committed and (log.transactions.ongoing or log.transactions.aborted_count):
        return None
    most = min(max_bytes, partition_bytes, door.unsent.room(door.limits.fetch_max_bytes))
    if most <= 0:
        return None
    span = log.span(offset, most) if connection.sends_spans() else None
    if span is not None:
        pieces: Sequence[Piece] = (span,)
        size, next_offset = span.size, span.next_offset
    else:
        try:
            found = log.read(offset, most, at_least_one=True)
        except HeadraceError:
            return None
        if not isinstance(found, ReadResult) or not found.size:
            return None
        pieces, size, next_offset = found
    if size < min_bytes:
        return None
    made = Answer()
    made.ready_bytes = size
    made.buffers = encode_single(
        header.correlation_id,
        topic_id,
        index,
        log.written_offset,
        log.stable_offset,
        log.start_offset,
        is_committed,
        pieces,
        size,
    )
    traffic = topic.traffic
    traffic.read_bytes += size
    traffic.read_records += next_offset - offset
    connection.done(FETCH, began)
    return made
