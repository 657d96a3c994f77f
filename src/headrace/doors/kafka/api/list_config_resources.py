"""ListConfigResources, 0 to 1: what has settings. Version 0 knows client metrics alone, of which there are none; from
version 1 on the kinds are named, and no kind is all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from headrace.broker.broker import Broker
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.names import to_kafka
from headrace.doors.kafka.registry import Api
from headrace.doors.kafka.resources import Kind
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import LIST_CONFIG_RESOURCES

# Kafka's, of which there are none here: client metrics, groups.
_EMPTY_KINDS = (16, 32)


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    request = messages.decode(LIST_CONFIG_RESOURCES, context.version, buffer, at, end)
    asked = tuple(dict.fromkeys(request.resource_types)) if context.version >= 1 else _EMPTY_KINDS[:1]
    known = all(number in (*Kind, *_EMPTY_KINDS) for number in asked)
    found = [
        (name, int(kind))
        for kind in Kind
        if known and (kind in asked or not asked)
        for name in _names(context.broker, kind)
    ]
    code = Code.NONE if known else Code.UNSUPPORTED_VERSION
    return context.in_background(lambda: _answer(context, code, found))


def _answer(context: Context, code: Code, found: list[tuple[str, int]]) -> bytes:
    """Off the loop: there may be ten thousand topics."""
    schema = messages.schema("response", LIST_CONFIG_RESOURCES, context.version)
    response = schema.ListConfigResourcesResponse(
        throttle_time=messages.NO_TIME,
        error_code=messages.error_code(code),
        config_resources=tuple(
            messages.build(schema.ConfigResource, resource_name=name, resource_type=kind) for name, kind in found
        ),
    )
    return messages.encode(response, context.correlation_id)


def _names(broker: Broker, kind: Kind) -> Iterable[str]:
    if kind is Kind.TOPIC:
        return (to_kafka(topic.name) for topic in broker.topics())
    return (str(broker.node_id),)


API = Api(LIST_CONFIG_RESOURCES, "ListConfigResources", range(2), handle)
