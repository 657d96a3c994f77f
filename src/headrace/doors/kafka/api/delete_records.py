"""DeleteRecords, 0 to 2: a partition's start moves up to an offset, -1 to its end. The answer comes when a restart
would not bring the records back, or when the client's time is over: they are gone then too, only not yet for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, NamedTuple

from headrace.broker.broker import Broker
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.finding import partition_of
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, InvalidTopicName
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import DELETE_RECORDS

AT_ONCE = 64  # partitions of one request that are worked on side by side, and share their syncs
_NONE = -1  # the start of a partition that has no say


class Deleted(NamedTuple):
    low_watermark: int
    code: Code


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _delete(messages.decode(DELETE_RECORDS, context.version, buffer, at, end), context)


async def _delete(request: Any, context: Context) -> bytes:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.timeout.total_seconds()
    asked = [(topic.name, one.partition_index, one.offset) for topic in request.topics for one in topic.partitions]
    found: list[Deleted] = []
    for first in range(0, len(asked), AT_ONCE):
        tasks = [loop.create_task(_delete_one(context.broker, *one)) for one in asked[first : first + AT_ONCE]]
        try:
            await asyncio.wait(tasks, timeout=max(0.0, deadline - loop.time()))
            found += [_ended(task) for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
    schema = messages.schema("response", DELETE_RECORDS, context.version)
    ended = iter(found)
    topics = tuple(
        schema.DeleteRecordsTopicResult(
            name=topic.name,
            partitions=tuple(_result(schema, one.partition_index, next(ended)) for one in topic.partitions),
        )
        for topic in request.topics
    )
    response = schema.DeleteRecordsResponse(throttle_time=messages.NO_TIME, topics=topics)
    return messages.encode(response, context.correlation_id)


async def _delete_one(broker: Broker, name: str, index: int, offset: int) -> Deleted:
    try:
        partition = partition_of(broker, name, index)
        if partition.topic.internal:
            raise InvalidTopicName(f"{name!r} is the broker's own")
        return Deleted(await broker.delete_records(partition, offset), Code.NONE)
    except HeadraceError as error:
        return Deleted(_NONE, code_for(error)[0])


def _ended(task: asyncio.Task[Deleted]) -> Deleted:
    return task.result() if task.done() else Deleted(_NONE, Code.REQUEST_TIMED_OUT)


def _result(schema: Any, index: int, deleted: Deleted) -> Any:
    return schema.DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=deleted.low_watermark, error_code=messages.error_code(deleted.code)
    )


API = Api(DELETE_RECORDS, "DeleteRecords", range(3), handle)
