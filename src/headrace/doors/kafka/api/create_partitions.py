"""CreatePartitions, 0 to 3: more partitions for topics that are there. Records stay where they are; keys go elsewhere
from now on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from typing import Any

from headrace.broker.wishes import MorePartitions
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.finding import outcome, refusal
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, InvalidReplication
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code, InvalidRequest
from headrace.wire.kafka.header import CREATE_PARTITIONS


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _create(messages.decode(CREATE_PARTITIONS, context.version, buffer, at, end), context)


async def _create(request: Any, context: Context) -> bytes:
    times = Counter(topic.name for topic in request.topics)
    asked = {topic.name: topic for topic in request.topics}
    became: dict[str, HeadraceError | None] = {
        name: InvalidRequest("the topic is in the request more than once") for name in asked if times[name] > 1
    }
    wishes = [_wish(topic) for name, topic in asked.items() if name not in became]
    try:
        answers = await context.broker.add_partitions(wishes, request.validate_only)
    except HeadraceError as error:
        answers = [error] * len(wishes)
    became.update(zip((name for name in asked if name not in became), answers, strict=True))
    schema = messages.schema("response", CREATE_PARTITIONS, context.version)
    results = tuple(schema.CreatePartitionsTopicResult(name=name, **_said(became[name])) for name in asked)
    response = schema.CreatePartitionsResponse(throttle_time=messages.NO_TIME, results=results)
    return messages.encode(response, context.correlation_id)


def _wish(topic: Any) -> MorePartitions:
    assignments = topic.assignments
    if assignments is not None:
        assignments = tuple(tuple(assignment.broker_ids) for assignment in assignments)
    return MorePartitions(from_kafka(topic.name), topic.count, assignments)


def _said(error: HeadraceError | None) -> dict[str, Any]:
    if isinstance(error, InvalidReplication):
        return refusal(Code.INVALID_REPLICA_ASSIGNMENT, code_for(error)[1])
    return outcome(error)


API = Api(CREATE_PARTITIONS, "CreatePartitions", range(4), handle)
