"""OffsetDelete, 0: positions of a group go, of topics that none of its members reads."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from headrace.broker.groups.generation import State
from headrace.broker.groups.hosted import Hosted
from headrace.broker.groups.subscription import CONSUMER
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.finding import partition_of
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import GroupNotEmpty, GroupNotFound, GroupSubscribed, HeadraceError
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import OFFSET_DELETE


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _answer(context, messages.decode(OFFSET_DELETE, context.version, buffer, at, end))


async def _answer(context: Context, request: Any) -> bytes:
    schema = messages.schema("response", OFFSET_DELETE, context.version)
    code, topics = Code.NONE, []
    try:
        hosted = _group(context, request.group_id)
        judged = [
            (topic.name, [_judge(context, hosted, topic.name, p) for p in topic.partitions]) for topic in request.topics
        ]
        places = [(from_kafka(name), index) for name, of in judged for index, error in of if error is None]
        await context.when(lambda done: context.broker.groups.forget_positions(hosted, places, done))
        topics = [
            schema.OffsetDeleteResponseTopic(name=name, partitions=tuple(_told(schema, *one) for one in of))
            for name, of in judged
        ]
    except HeadraceError as error:
        code = code_for(error)[0]
    response = schema.OffsetDeleteResponse(
        error_code=messages.error_code(code), throttle_time=messages.NO_TIME, topics=tuple(topics)
    )
    return messages.encode(response, context.correlation_id)


def _group(context: Context, group_id: str) -> Hosted:
    hosted = context.broker.groups.find(group_id)
    if hosted is None:
        raise GroupNotFound(f"there is no group {group_id!r}")
    group = hosted.group
    if group.state is not State.EMPTY and group.protocol_type != CONSUMER:
        raise GroupNotEmpty(f"group {group_id!r} has members, and what they read is theirs to know")
    return hosted


def _judge(context: Context, hosted: Hosted, name: str, asked: Any) -> tuple[int, HeadraceError | None]:
    index: int = asked.partition_index
    try:
        partition_of(context.broker, name, index)
        subscribed = context.broker.groups.subscribed(hosted)
        if subscribed is None or from_kafka(name) in subscribed:
            raise GroupSubscribed(f"members of {hosted.group.id!r} read {name!r}")
    except HeadraceError as error:
        return index, error
    return index, None


def _told(schema: Any, index: int, error: HeadraceError | None) -> Any:
    code = Code.NONE if error is None else code_for(error)[0]
    return schema.OffsetDeleteResponsePartition(partition_index=index, error_code=messages.error_code(code))


API = Api(OFFSET_DELETE, "OffsetDelete", range(1), handle)
