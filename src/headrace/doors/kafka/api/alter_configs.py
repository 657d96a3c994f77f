"""AlterConfigs, 0 to 2: the settings of a topic or a broker, all of them: what is not named goes back to its default.
Deprecated by Kafka for that reason, and still what kafkajs and aiokafka send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from headrace.broker.alteration import Change, Op
from headrace.doors.kafka import altering
from headrace.doors.kafka.altering import Asked
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import InvalidRequest
from headrace.wire.kafka.header import ALTER_CONFIGS


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _alter(messages.decode(ALTER_CONFIGS, context.version, buffer, at, end), context)


async def _alter(request: Any, context: Context) -> bytes:
    asked = [Asked(one.resource_type, one.resource_name, _changes(one.configs), True) for one in request.resources]
    ended = await altering.answers(context, asked, request.validate_only)
    schema = messages.schema("response", ALTER_CONFIGS, context.version)
    results = altering.results(schema.AlterConfigsResourceResponse, asked, ended)
    response = schema.AlterConfigsResponse(throttle_time=messages.NO_TIME, responses=results)
    return messages.encode(response, context.correlation_id)


def _changes(configs: Sequence[Any]) -> list[Change] | HeadraceError:
    for one in configs:
        if one.value is None:
            return InvalidRequest(f"{one.name[:100]} has no value")
    return [Change(one.name, Op.SET, one.value) for one in configs]


API = Api(ALTER_CONFIGS, "AlterConfigs", range(3), handle)
