"""ListOffsets, 1 to 11: the first, the last, or the first offset at a time. Consumers ask it often, so a
request whose logs are all open is answered without a task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping

from headrace.broker.broker import Broker
from headrace.broker.partition import Partition
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, NotLeader, UnknownTopic
from headrace.ports import Buffer
from headrace.wire.kafka import list_offsets as wire
from headrace.wire.kafka.errors import Code, code_for
from headrace.wire.kafka.header import LIST_OFFSETS


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes | Awaitable[bytes]:
    request = wire.decode_request(buffer, at, end, context.version)
    closed = [
        partition
        for name, asked in request.topics
        for one in asked
        if (partition := _partition(context.broker, name, one.partition)) is not None and partition.log is None
    ]
    return _open_first(context, request, closed) if closed else _answer(context, request, {})


async def _open_first(context: Context, request: wire.ListOffsetsRequest, closed: list[Partition]) -> bytes:
    failed: dict[Partition, HeadraceError] = {}
    for partition in closed:
        try:
            await partition.opened()
        except HeadraceError as error:
            failed[partition] = error
    return _answer(context, request, failed)


def _answer(context: Context, request: wire.ListOffsetsRequest, failed: Mapping[Partition, HeadraceError]) -> bytes:
    times = Counter((name, one.partition) for name, asked in request.topics for one in asked)
    committed = request.isolation_level == wire.READ_COMMITTED
    topics = []
    for name, asked in request.topics:
        found = []
        for one in asked:
            if times[name, one.partition] > 1:
                found.append(wire.FoundOffset(one.partition, Code.INVALID_REQUEST))
                continue
            try:
                partition = _partition(context.broker, name, one.partition)
                if partition is not None and partition in failed:
                    raise failed[partition]
                found.append(_find(context.version, partition, one, committed))
            except HeadraceError as error:
                found.append(wire.FoundOffset(one.partition, code_for(error)[0]))
        topics.append((name, found))
    return wire.encode_response(context.version, context.correlation_id, topics)


def _partition(broker: Broker, name: str, index: int) -> Partition | None:
    topic = broker.topic(from_kafka(name))
    return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None


def _find(version: int, partition: Partition | None, asked: wire.AskedOffset, committed: bool) -> wire.FoundOffset:
    if asked.timestamp < 0 and version < wire.SPECIAL_FROM.get(asked.timestamp, wire.NEWEST + 1):
        return wire.FoundOffset(asked.partition, Code.UNSUPPORTED_VERSION)
    if partition is None:
        raise UnknownTopic(f"no partition {asked.partition} of it")
    if partition.log is None:  # closed again while the others were opened
        raise partition.error or NotLeader("the partition is not open")
    partition.check_epoch(asked.current_leader_epoch)
    timestamp, offset, epoch = _offset(partition, asked.timestamp, committed)
    return wire.FoundOffset(asked.partition, 0, timestamp, offset, epoch)


def _offset(partition: Partition, timestamp: int, committed: bool) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch); -1 for each that there is not."""
    end = partition.last_stable_offset if committed else partition.high_watermark
    if timestamp == wire.LATEST:
        return -1, end, partition.leader_epoch
    if timestamp in (wire.EARLIEST, wire.EARLIEST_LOCAL):
        return -1, partition.start_offset, _epoch_at(partition, partition.start_offset)
    if timestamp in (wire.LATEST_TIERED, wire.EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1  # nothing is kept elsewhere
    at = partition.max_timestamp() if timestamp == wire.MAX_TIMESTAMP else partition.offset_for_timestamp(timestamp)
    if at is None or at[0] >= end:
        return -1, -1, -1
    return at[1], at[0], _epoch_at(partition, at[0])


def _epoch_at(partition: Partition, offset: int) -> int:
    """The leader epoch that wrote this offset, -1 when it is not known: the client then checks nothing."""
    assert partition.log is not None
    return max((epoch for epoch, start in partition.log.epochs.entries() if start <= offset), default=-1)


API = Api(LIST_OFFSETS, "ListOffsets", range(wire.OLDEST, wire.NEWEST + 1), handle)
