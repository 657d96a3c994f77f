"""DeleteGroups, 0 to 2: groups without members go, with all their positions."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from headrace.broker.groups.generation import State
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.registry import Api
from headrace.errors import GroupNotEmpty, GroupNotFound, HeadraceError
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import DELETE_GROUPS


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _answer(context, messages.decode(DELETE_GROUPS, context.version, buffer, at, end))


async def _answer(context: Context, request: Any) -> bytes:
    schema = messages.schema("response", DELETE_GROUPS, context.version)
    results = []
    for group_id in request.groups_names:
        code = messages.error_code(await _delete(context, group_id))
        results.append(schema.DeletableGroupResult(group_id=group_id, error_code=code))
    response = schema.DeleteGroupsResponse(throttle_time=messages.NO_TIME, results=tuple(results))
    return messages.encode(response, context.correlation_id)


async def _delete(context: Context, group_id: str) -> Code:
    groups = context.broker.groups
    try:
        hosted = groups.find(group_id)
        if hosted is None:
            raise GroupNotFound(f"there is no group {group_id!r}")
        if hosted.group.state is not State.EMPTY or hosted.group.pending:
            raise GroupNotEmpty(f"group {group_id!r} has members")
        await context.when(lambda done: groups.delete(hosted, done))
    except HeadraceError as error:
        return code_for(error)[0]
    return Code.NONE


API = Api(DELETE_GROUPS, "DeleteGroups", range(3), handle)
