"""The short way of a Fetch of one partition, when there is enough to answer it at once: as `single` for Produce, for
a megabyte that was just copied has driven our code out of the processor's cache. All else is `api/fetch`'s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.log.reader import ReadResult
from headrace.ports import Piece
from headrace.wire.kafka import kernel
from headrace.wire.kafka.fetch import READ_COMMITTED
from headrace.wire.kafka.fetch_single import NO_TAGS, SingleFetch
from headrace.wire.kafka.header import FETCH

if TYPE_CHECKING:
    from headrace.doors.kafka.connection import Connection

NO_EPOCH = -1


def answer(connection: Connection, asked: SingleFetch) -> tuple[list[Piece], int] | None:
    """With how many bytes of records are in it. None: it is for the general way, and nothing was done but to look."""
    _, min_bytes, max_bytes, isolation, topic_id, index, leader_epoch, offset, partition_bytes = asked
    door, began = connection.door, connection.now()
    topic = connection.broker.topic_by_id(topic_id)
    if topic is None or not 0 <= index < len(topic.partitions):
        return None
    partition = topic.partitions[index]
    log = partition.log
    if log is None or leader_epoch not in (NO_EPOCH, partition.leader_epoch):
        return None
    if isolation == READ_COMMITTED and (log.stable_offset < log.written_offset or log.transactions.aborted_count):
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
    if size < min_bytes and next_offset >= log.written_offset:
        return None
    head = kernel.single_fetch_head(asked, log.written_offset, log.stable_offset, log.start_offset, size)
    traffic = topic.traffic
    traffic.read_bytes += size
    traffic.read_records += next_offset - offset
    connection.done(FETCH, began)
    return [head, *pieces, NO_TAGS], size
