"""OffsetForLeaderEpoch, 2 to 4: where a leader epoch ended. A consumer, or a follower, that saw a record of
that epoch learns from it whether what it saw is still there.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from headrace.broker.broker import Broker
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, UnknownTopic
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import OFFSET_FOR_LEADER_EPOCH

_UNDEFINED = -1


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _answer(messages.decode(OFFSET_FOR_LEADER_EPOCH, context.version, buffer, at, end), context)


async def _answer(request: Any, context: Context) -> bytes:
    schema = messages.schema("response", OFFSET_FOR_LEADER_EPOCH, context.version)
    topics = []
    for topic in request.topics:
        partitions = [await _find(schema, context.broker, topic.topic, asked) for asked in topic.partitions]
        topics.append(schema.OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(partitions)))
    response = schema.OffsetForLeaderEpochResponse(throttle_time=messages.NO_TIME, topics=tuple(topics))
    return messages.encode(response, context.correlation_id)


async def _find(schema: Any, broker: Broker, name: str, asked: Any) -> Any:
    code, epoch, end_offset = Code.NONE, _UNDEFINED, _UNDEFINED
    try:
        topic = broker.topic(from_kafka(name))
        if topic is None or not 0 <= asked.partition < len(topic.partitions):
            raise UnknownTopic(f"no partition {asked.partition} of {name!r}")
        partition = await topic.partitions[asked.partition].opened()
        partition.serving_log()
        partition.check_epoch(asked.current_leader_epoch)
        epoch, end_offset = partition.epoch_end(asked.leader_epoch)
    except HeadraceError as error:
        code, _ = code_for(error)
    return schema.EpochEndOffset(
        error_code=messages.error_code(code),
        partition=asked.partition,
        leader_epoch=epoch,
        end_offset=end_offset,
    )


API = Api(OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", range(2, 5), handle)
