"""ListOffsets, 1 to 11: the first, the last, or the first offset at a time. Consumers ask it often, so a
request whose logs are all open, for nothing but their ends, is answered without a task.

A time is looked for in files, off the loop, one partition after the other: a request that asks for thousands
holds up itself alone. What fails for one partition is that partition's answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import NamedTuple

from headrace.broker.partition import Partition
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError
from headrace.ports import Buffer
from headrace.wire.kafka import list_offsets as wire
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import LIST_OFFSETS


class Wish(NamedTuple):
    """What is asked of one partition."""

    asked: wire.AskedOffset
    partition: Partition | None  # None: there is no such partition
    refusal: Code = Code.NONE

    @property
    def has_to_wait(self) -> bool:
        """For the log to be opened, or for a time to be found."""
        return self.partition is not None and not self.refusal and (self.partition.log is None or self.is_by_time)

    @property
    def is_by_time(self) -> bool:
        return self.asked.timestamp >= 0 or self.asked.timestamp == wire.MAX_TIMESTAMP


Wishes = Sequence[tuple[str, Sequence[Wish]]]


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes | Awaitable[bytes]:
    request = wire.decode_request(buffer, at, end, context.version)
    wishes = _wishes(context, request)
    committed = request.isolation_level == wire.READ_COMMITTED
    if any(wish.has_to_wait for _, of_topic in wishes for wish in of_topic):
        return _answer_later(context, wishes, committed)
    topics = [(name, [_find(wish, committed) for wish in of_topic]) for name, of_topic in wishes]
    return wire.encode_response(context.version, context.correlation_id, topics)


async def _answer_later(context: Context, wishes: Wishes, committed: bool) -> bytes:
    topics = [(name, [await _find_later(context, wish, committed) for wish in of_topic]) for name, of_topic in wishes]
    return wire.encode_response(context.version, context.correlation_id, topics)


def _wishes(context: Context, request: wire.ListOffsetsRequest) -> Wishes:
    times = Counter((name, one.partition) for name, asked in request.topics for one in asked)
    wishes = []
    for name, asked in request.topics:
        topic = context.broker.topic(from_kafka(name))
        partitions: Sequence[Partition] = topic.partitions if topic is not None else ()
        of_topic = []
        for one in asked:
            partition = partitions[one.partition] if 0 <= one.partition < len(partitions) else None
            of_topic.append(Wish(one, partition, _refusal(context.version, one, partition, times[name, one.partition])))
        wishes.append((name, of_topic))
    return wishes


def _refusal(version: int, asked: wire.AskedOffset, partition: Partition | None, times: int) -> Code:
    if times > 1:
        return Code.INVALID_REQUEST
    if asked.timestamp < 0 and version < wire.SPECIAL_FROM.get(asked.timestamp, wire.NEWEST + 1):
        return Code.UNSUPPORTED_VERSION
    return Code.UNKNOWN_TOPIC_OR_PARTITION if partition is None else Code.NONE


def _find(wish: Wish, committed: bool) -> wire.FoundOffset:
    """At once: the log is open, and no time has to be found."""
    asked, partition, refusal = wish
    if partition is None or refusal:
        return wire.FoundOffset(asked.partition, refusal)
    try:
        partition.serving_log()
        partition.check_epoch(asked.current_leader_epoch)
        return wire.FoundOffset(asked.partition, 0, -1, *_end(partition, asked.timestamp, committed))
    except HeadraceError as error:
        return wire.FoundOffset(asked.partition, code_for(error)[0])


async def _find_later(context: Context, wish: Wish, committed: bool) -> wire.FoundOffset:
    asked, partition, refusal = wish
    if partition is None or refusal:
        return _find(wish, committed)
    try:
        await partition.opened()
        if not wish.is_by_time:
            return _find(wish, committed)
        log = partition.serving_log()
        partition.check_epoch(asked.current_leader_epoch)
        by_max = asked.timestamp == wire.MAX_TIMESTAMP
        lookup = log.max_timestamp_lookup() if by_max else log.timestamp_lookup(asked.timestamp)
        at = await context.in_background(lookup.run)
        partition.serving_log()  # it may have been closed meanwhile
        if at is None or at[0] >= _readable_end(partition, committed):
            return wire.FoundOffset(asked.partition)
        return wire.FoundOffset(asked.partition, 0, at[1], at[0], _epoch_at(partition, at[0]))
    except HeadraceError as error:
        return wire.FoundOffset(asked.partition, code_for(error)[0])
    except OSError:  # the disk's word; the log may be whole, so it is not failed for it
        return wire.FoundOffset(asked.partition, Code.KAFKA_STORAGE_ERROR)


def _readable_end(partition: Partition, committed: bool) -> int:
    return partition.last_stable_offset if committed else partition.high_watermark


def _end(partition: Partition, timestamp: int, committed: bool) -> tuple[int, int]:
    """(offset, leader epoch); -1 for each that there is not."""
    if timestamp == wire.LATEST:
        return _readable_end(partition, committed), partition.leader_epoch
    if timestamp in (wire.EARLIEST, wire.EARLIEST_LOCAL):
        return partition.start_offset, _epoch_at(partition, partition.start_offset)
    return -1, -1  # nothing is kept elsewhere


def _epoch_at(partition: Partition, offset: int) -> int:
    """The leader epoch that wrote this offset, -1 when it is not known: the client then checks nothing."""
    assert partition.log is not None
    return max((epoch for epoch, start in partition.log.epochs.entries() if start <= offset), default=-1)


API = Api(LIST_OFFSETS, "ListOffsets", range(wire.OLDEST, wire.NEWEST + 1), handle)
