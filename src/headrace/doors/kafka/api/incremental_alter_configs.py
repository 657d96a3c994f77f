"""IncrementalAlterConfigs, 0 to 1: some settings of a topic or a broker: set, taken back to the default, a list made
longer or shorter. What is not named stays as it is.
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
from headrace.wire.kafka.header import INCREMENTAL_ALTER_CONFIGS

_OPS = {0: Op.SET, 1: Op.DELETE, 2: Op.APPEND, 3: Op.SUBTRACT}


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _alter(messages.decode(INCREMENTAL_ALTER_CONFIGS, context.version, buffer, at, end), context)


async def _alter(request: Any, context: Context) -> bytes:
    asked = [Asked(one.resource_type, one.resource_name, _changes(one.configs), False) for one in request.resources]
    ended = await altering.answers(context, asked, request.validate_only)
    schema = messages.schema("response", INCREMENTAL_ALTER_CONFIGS, context.version)
    results = altering.results(schema.AlterConfigsResourceResponse, asked, ended)
    response = schema.IncrementalAlterConfigsResponse(throttle_time=messages.NO_TIME, responses=results)
    return messages.encode(response, context.correlation_id)


def _changes(configs: Sequence[Any]) -> list[Change] | HeadraceError:
    changes = []
    for one in configs:
        op = _OPS.get(one.config_operation)
        if op is None:
            return InvalidRequest(f"there is no operation {one.config_operation} on a setting")
        if one.value is None and op is not Op.DELETE:
            return InvalidRequest(f"{one.name[:100]} has no value")
        changes.append(Change(one.name, op, one.value or ""))
    return changes


API = Api(INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", range(2), handle)
