"""DescribeProducers, 0: the producers that a partition remembers, what each wrote last, and where the transaction began
that it has under way.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from headrace.broker.broker import Broker
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.finding import outcome, partition_of
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, NotLeader
from headrace.log.producers import State
from headrace.log.transactions import Transactions
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.header import DESCRIBE_PRODUCERS

MAX_SHOWN = 50_000  # producers in one answer, two megabytes; of a partition those heard of last
_NONE = -1  # no sequence, no transaction under way, no coordinator


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _describe(messages.decode(DESCRIBE_PRODUCERS, context.version, buffer, at, end), context)


async def _describe(request: Any, context: Context) -> bytes:
    schema = messages.schema("response", DESCRIBE_PRODUCERS, context.version)
    topics: list[Any] = []
    room = MAX_SHOWN
    for topic in request.topics:
        partitions = []
        for index in dict.fromkeys(topic.partition_indexes):
            partitions.append(found := await _partition(schema, context.broker, topic.name, index, room))
            room -= len(found.active_producers)
        topics.append(schema.TopicResponse(name=topic.name, partitions=tuple(partitions)))
    response = schema.DescribeProducersResponse(throttle_time=messages.NO_TIME, topics=tuple(topics))
    return messages.encode(response, context.correlation_id)


async def _partition(schema: Any, broker: Broker, name: str, index: int, room: int) -> Any:
    error: HeadraceError | None = None
    producers: tuple[Any, ...] = ()
    try:
        partition = await partition_of(broker, name, index).opened()
        if partition.log is None:
            raise partition.error or NotLeader("the partition is not open")
        known = sorted(partition.log.producers.save(), key=lambda one: -one[1][1])[:room]
        producers = tuple(_producer(schema, partition.log.transactions, *one) for one in known)
    except HeadraceError as refused:
        error = refused
    return schema.PartitionResponse(partition_index=index, **outcome(error), active_producers=producers)


def _producer(schema: Any, transactions: Transactions, producer_id: int, state: State) -> Any:
    epoch, heard_ms, batches = state
    return schema.ProducerState(
        producer_id=producer_id,
        producer_epoch=epoch,
        last_sequence=batches[-1][1] if batches else _NONE,
        last_timestamp=heard_ms,
        coordinator_epoch=transactions.coordinators.get(producer_id, _NONE),
        current_txn_start_offset=transactions.ongoing.get(producer_id, _NONE),
    )


API = Api(DESCRIBE_PRODUCERS, "DescribeProducers", range(1), handle)
