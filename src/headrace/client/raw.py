"""Batches as they are, without a look at their records: for backups and exports that must be equal to the byte."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from headrace.client import positions
from headrace.client.apis import FETCH, PRODUCE, ProduceRequest
from headrace.client.asking import Asking, checked_partition
from headrace.client.connection import Connection
from headrace.client.positions import END, Position
from headrace.client.producer import ACKS
from headrace.client.refusals import MISDIRECTED, error_of
from headrace.client.values import TopicPartition
from headrace.errors import CorruptBatch, OffsetOutOfRange
from headrace.ports import Buffer
from headrace.records import kernel
from headrace.records.header import assign
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.fetch import BY_ID, FetchedPartition, FetchPartition, FetchRequest, FetchTopic
from headrace.wire.kafka.produce import PartitionResult

FETCH_BYTES: Final = 4 << 20  # of one answer; one batch may be more


async def batches(
    asking: Asking, topic: str, partition: int, start: Position, end: Position | None
) -> AsyncIterator[bytes]:
    known = await asking.metadata.topic(topic)
    checked_partition(len(known.partitions), topic, partition)
    where = TopicPartition(topic, partition)
    offset = (await positions.resolve(asking, {where: start}, 0))[where]
    stop = (await positions.resolve(asking, {where: END if end is None else end}, 0))[where]
    while offset < stop:
        fetched = await fetch(asking, topic, partition, offset)
        buffer = memoryview((fetched.pieces or (b"",))[0])
        found, at, why = kernel.scan(buffer, 0, len(buffer), -1, True)
        if not found:
            raise CorruptBatch(
                f"topic {topic!r} partition {partition} at {offset}: {why or 'nothing came'} (byte {at})"
            )
        for position, size, base_offset, next_offset, *_ in found:
            if base_offset >= stop:
                return
            if next_offset > offset:
                yield bytes(buffer[position : position + size])
                offset = next_offset


async def produce_batches(asking: Asking, topic: str, partition: int, batch: Buffer, acks: str | int) -> int:
    """One batch. Base offset and leader epoch, which the broker sets, go as producers send them; the rest as it is."""
    known = await asking.metadata.topic(topic)
    checked_partition(len(known.partitions), topic, partition)
    kernel.validate(batch)
    copy = bytearray(batch)
    assign(copy, 0, 0, -1)
    ready: dict[int, Buffer] = {partition: copy}

    async def ask(connection: Connection, asked: dict[int, Buffer]) -> dict[int, PartitionResult]:
        by_id = asking.metadata.known(topic)
        topic_id = by_id.topic_id if by_id is not None else None
        request = ProduceRequest(
            ACKS[acks], asking.broker_timeout_ms, [(topic, topic_id, [(partition, asked[partition])])]
        )
        newest = None if topic_id is not None else BY_ID - 1
        if not ACKS[acks]:
            connection.send_unanswered(PRODUCE, request, newest)
            return {partition: PartitionResult(partition)}
        (answer,) = (await connection.ask(PRODUCE, request, asking.timeout, newest)).topics
        (result,) = answer.partitions
        if result.error in MISDIRECTED:
            return {}
        if result.error:
            raise error_of(result.error, f"topic {topic!r} partition {partition}", result.message)
        return {partition: result}

    return (await asking.leaders(topic, ready, ask, is_repeatable=False))[partition].base_offset


async def fetch(
    asking: Asking, topic: str, partition: int, offset: int, max_bytes: int = FETCH_BYTES
) -> FetchedPartition:
    """One answer of the leader: at least one whole batch, where there is one."""

    async def ask(connection: Connection, asked: dict[int, int]) -> dict[int, FetchedPartition]:
        known = asking.metadata.known(topic)
        topic_id = known.topic_id if known is not None else None
        wanted = [FetchPartition(partition, -1, asked[partition], -1, -1, max_bytes)]
        # It does not wait: others ask on the same connection, and what is wanted is there.
        request = FetchRequest(max_bytes=max_bytes, topics=[FetchTopic(topic, topic_id, wanted)])
        response = await connection.ask(FETCH, request, asking.timeout, None if topic_id else BY_ID - 1)
        code = response.error
        for fetched in (one for name in response.topics for one in name.partitions):
            code = code or fetched.error
            if not code:
                return {partition: fetched}
        if code in MISDIRECTED:
            return {}
        if code == Code.OFFSET_OUT_OF_RANGE:
            raise OffsetOutOfRange(offset, *await positions.ends(asking, topic, partition, 0))
        raise error_of(code, f"topic {topic!r} partition {partition} at {offset}")

    return (await asking.leaders(topic, {partition: offset}, ask))[partition]
