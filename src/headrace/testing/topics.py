"""Shortcuts into a broker under test: topics, records in, records out, without a client.

They are what a test says before and after the thing that it is about. All run on the broker's loop and take the way
that a door takes: a produced record is synced before the call returns, and wakes whoever waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.broker.broker import Broker, NewTopic
from headrace.broker.partition import Partition
from headrace.client.partitioner import by_key
from headrace.client.values import APPEND_TIME, CREATE_TIME, Delivery, Record
from headrace.errors import HeadraceError, UnknownTopic
from headrace.log.reader import FileRead
from headrace.records import codec
from headrace.records.record import Headers
from headrace.records.record import Record as Plain

READ_BYTES = 4 << 20  # at a time


class Wanted(NamedTuple):
    """A record to be produced."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: Headers
    partition: int | None  # None: by its key, as clients choose; the first without a key
    timestamp_ms: int | None


async def create_topic(broker: Broker, name: str, partitions: int, config: Mapping[str, str]) -> None:
    (made,) = await broker.create_topics([NewTopic(name, partitions=partitions, configs=dict(config))])
    if isinstance(made, HeadraceError):
        raise made


async def delete_topic(broker: Broker, name: str) -> None:
    (refused,) = await broker.delete_topics([name])
    if refused is not None:
        raise refused


async def topics(broker: Broker) -> dict[str, int]:
    return {topic.name: len(topic.partitions) for topic in sorted(broker.topics(), key=lambda topic: topic.name)}


async def produce(broker: Broker, wanted: Sequence[Wanted]) -> list[Delivery]:
    """All are staged before the first is waited for: one sync for them."""
    for name in {each.topic for each in wanted} - {topic.name for topic in broker.topics()}:
        if broker.configuration.auto_create_topics:
            await create_topic(broker, name, -1, {})
    written = []
    now_ms = broker.clock.now_ms()
    try:
        for each in wanted:
            partition = await _opened(broker, each.topic, _choose(broker, each))
            timestamp_ms = now_ms if each.timestamp_ms is None else each.timestamp_ms
            batch = codec.encode([Plain(each.key, each.value, each.headers, timestamp_ms)])
            staged = partition.append(batch, now_ms)
            appended_ms = now_ms if partition.topic.config.is_log_append_time else timestamp_ms
            written.append((partition, staged.base_offset, appended_ms))
    finally:  # one that is refused keeps back none of those before it
        failed = broker.flush() or {}
    deliveries = []
    for partition, offset, timestamp_ms in written:
        if partition in failed:
            raise failed[partition]
        await _synced(partition, offset + 1)
        deliveries.append(Delivery(partition.topic.name, partition.index, offset, timestamp_ms))
    return deliveries


async def records(broker: Broker, topic: str, partition: int | None) -> list[Record]:
    found = broker.topic(topic)
    if found is None:
        raise UnknownTopic(f"no topic {topic!r}; there are: {', '.join(await topics(broker)) or 'none'}")
    wanted = range(len(found.partitions)) if partition is None else (partition,)
    read: list[Record] = []
    for index in wanted:
        read += await _read(await _opened(broker, topic, index))
    return read


async def offsets(broker: Broker, topic: str, partition: int) -> tuple[int, int]:
    opened = await _opened(broker, topic, partition)
    return opened.start_offset, opened.high_watermark


def _choose(broker: Broker, wanted: Wanted) -> int:
    topic = broker.topic(wanted.topic)
    if wanted.partition is not None or topic is None:
        return wanted.partition or 0
    return by_key(wanted.key, len(topic.partitions)) or 0


async def _opened(broker: Broker, topic: str, index: int) -> Partition:
    found = broker.topic(topic)
    if found is None or not 0 <= index < len(found.partitions):
        raise UnknownTopic(f"no partition {index} of a topic {topic!r}")
    return await found.partitions[index].opened()


async def _synced(partition: Partition, end_offset: int) -> None:
    log = partition.log
    assert log is not None
    promise: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: HeadraceError | None) -> None:
        if not promise.done():
            promise.set_result(None) if error is None else promise.set_exception(error)

    log.when_synced(end_offset, done)
    await promise


async def _read(partition: Partition) -> list[Record]:
    read: list[Record] = []
    at, end = partition.start_offset, partition.high_watermark
    while at < end:
        found = partition.read(at, READ_BYTES, at_least_one=True)
        if isinstance(found, FileRead):
            found = await asyncio.to_thread(found.run)
        batches = memoryview(b"".join(found.pieces))
        for header, _ in codec.split(batches):
            kind = APPEND_TIME if header.is_log_append_time else CREATE_TIME
            kept = [record for record in codec.decode(batches[: header.size]) if record.offset >= at]
            read += [_shown(partition, record, kind, header.leader_epoch) for record in kept]
            batches = batches[header.size :]
        at = found.next_offset
    return read


def _shown(partition: Partition, record: Plain, kind: str, leader_epoch: int) -> Record:
    return Record(
        partition.topic.name,
        partition.index,
        record.offset,
        record.timestamp_ms,
        kind,
        record.key,
        record.value,
        record.headers,
        leader_epoch,
    )
