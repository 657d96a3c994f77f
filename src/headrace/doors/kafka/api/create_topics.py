"""CreateTopics, 2 to 7. A name that is in the request twice is refused, and with it only that name. The
answer tells from version 5 on what the topic became, with the settings that it has of its own and by default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from typing import Any

from headrace.broker.broker import NewTopic
from headrace.broker.topic import Topic
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.names import checked
from headrace.doors.kafka.registry import Api
from headrace.doors.kafka.resources import SOURCES
from headrace.errors import HeadraceError, InvalidConfig, InvalidReplication
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code, InvalidRequest
from headrace.wire.kafka.header import CREATE_TOPICS


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _create(messages.decode(CREATE_TOPICS, context.version, buffer, at, end), context)


async def _create(request: Any, context: Context) -> bytes:
    times = Counter(topic.name for topic in request.topics)
    asked = {topic.name: topic for topic in request.topics}
    became: dict[str, Topic | HeadraceError] = {}
    wishes: dict[str, NewTopic] = {}
    for name, topic in asked.items():
        try:
            wishes[name] = _wish(topic, times[name])
        except HeadraceError as error:
            became[name] = error
    try:
        answers = await context.broker.create_topics(list(wishes.values()), request.validate_only)
    except HeadraceError as error:
        answers = [error] * len(wishes)
    became.update(zip(wishes, answers, strict=True))
    schema = messages.schema("response", CREATE_TOPICS, context.version)
    results = tuple(_result(schema, context, asked[name], became[name]) for name in asked)
    response = schema.CreateTopicsResponse(throttle_time=messages.NO_TIME, topics=results)
    return messages.encode(response, context.correlation_id)


def _wish(topic: Any, times: int) -> NewTopic:
    if times > 1:
        raise InvalidRequest("the topic is in the request more than once")
    name = checked(topic.name)
    assignments = None
    if topic.assignments:
        if topic.num_partitions != -1 or topic.replication_factor != -1:
            raise InvalidRequest("with an assignment of replicas, their number and that of partitions must be -1")
        assignments = {one.partition_index: tuple(one.broker_ids) for one in topic.assignments}
        if len(assignments) != len(topic.assignments):
            raise InvalidReplication("a partition is assigned more than once")
    configs = {one.name: one.value for one in topic.configs}
    for setting, value in configs.items():
        if value is None:
            raise InvalidConfig(f"{setting} has no value")
    return NewTopic(name, topic.num_partitions, topic.replication_factor, assignments, configs)


def _result(schema: Any, context: Context, asked: Any, became: Topic | HeadraceError) -> Any:
    version, code, text = context.version, Code.NONE, None
    if isinstance(became, HeadraceError):
        code, text = code_for(became)
        if isinstance(became, InvalidReplication) and asked.assignments:
            code = Code.INVALID_REPLICA_ASSIGNMENT
    values: dict[str, Any] = {
        "name": asked.name,
        "error_code": messages.error_code(code),
        "error_message": text,
    }
    if version >= 5:
        values |= {"num_partitions": -1, "replication_factor": -1, "configs": ()}
    if version >= 7:
        values["topic_id"] = None
    if isinstance(became, Topic):
        values |= _description(schema, context, became)
    return schema.CreatableTopicResult(**values)


def _description(schema: Any, context: Context, topic: Topic) -> dict[str, Any]:
    if context.version < 5:
        return {}
    configs = tuple(
        schema.CreatableTopicConfigs(
            name=setting.name,
            value=setting.value,
            read_only=setting.read_only,
            config_source=SOURCES[setting.source.value],
            is_sensitive=setting.sensitive,
        )
        for setting in context.broker.configuration.describe_topic(topic.image.config)
    )
    described: dict[str, Any] = {
        "num_partitions": len(topic.partitions),
        "replication_factor": len(topic.partitions[0].replicas),
        "configs": configs,
    }
    if context.version >= 7:
        described["topic_id"] = topic.id
    return described


API = Api(CREATE_TOPICS, "CreateTopics", range(2, 8), handle)
