"""DeleteTopics, 1 to 6: by name, from version 6 on also by id. A topic that is in the request twice is
refused, as Kafka does: the second wish could only mean a mistake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from typing import Any, NamedTuple
from uuid import UUID

from headrace.broker.broker import Broker
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.names import from_kafka, to_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, UnknownTopic, UnknownTopicId
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code, InvalidRequest
from headrace.wire.kafka.header import DELETE_TOPICS

_BY_ID_FROM = 6


class Wish(NamedTuple):
    name: str | None
    topic_id: UUID | None


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    request = messages.decode(DELETE_TOPICS, context.version, buffer, at, end)
    if context.version >= _BY_ID_FROM:
        wishes = [Wish(topic.name, topic.topic_id) for topic in request.topics]
    else:
        wishes = [Wish(name, None) for name in request.topic_names]
    return _delete(wishes, context)


async def _delete(wishes: list[Wish], context: Context) -> bytes:
    broker = context.broker
    found = {wish: _find(broker, wish) for wish in wishes}
    ids = Counter(topic_id for wish in wishes if isinstance(topic_id := found[wish][1], UUID))
    results = []
    schema = messages.schema("response", DELETE_TOPICS, context.version)
    for wish, (name, target) in found.items():
        error: HeadraceError | None = None
        gone: UUID | None = None
        if isinstance(target, HeadraceError):
            error, gone = target, wish.topic_id
        elif ids[target] > 1:
            error, gone = InvalidRequest("the topic is in the request more than once"), target
        else:
            gone = target
            try:
                (error,) = await broker.delete_topics([target])
            except HeadraceError as unsettled:
                error = unsettled
        results.append(_result(schema, context.version, name, gone, error))
    response = schema.DeleteTopicsResponse(throttle_time=messages.NO_TIME, responses=tuple(results))
    return messages.encode(response, context.correlation_id)


def _find(broker: Broker, wish: Wish) -> tuple[str | None, UUID | HeadraceError]:
    """The topic's name as the client knows it, and its id or why there is none."""
    if wish.name is not None and wish.topic_id is not None:
        return wish.name, InvalidRequest("a topic is named by its name or by its id, not by both")
    if wish.name is not None:
        topic = broker.topic(from_kafka(wish.name))
        return wish.name, topic.id if topic is not None else UnknownTopic(f"no topic {wish.name!r}")
    if wish.topic_id is None:
        return None, InvalidRequest("a topic needs a name or an id")
    topic = broker.topic_by_id(wish.topic_id)
    if topic is None:
        return None, UnknownTopicId(f"no topic {wish.topic_id}")
    return to_kafka(topic.name), topic.id


def _result(schema: Any, version: int, name: str | None, topic_id: UUID | None, error: HeadraceError | None) -> Any:
    code, text = (Code.NONE, None) if error is None else code_for(error)
    values: dict[str, Any] = {"name": name, "error_code": messages.error_code(code)}
    if version >= 5:
        values["error_message"] = text
    if version >= _BY_ID_FROM:
        values["topic_id"] = topic_id
    return schema.DeletableTopicResult(**values)


API = Api(DELETE_TOPICS, "DeleteTopics", range(1, 7), handle)
