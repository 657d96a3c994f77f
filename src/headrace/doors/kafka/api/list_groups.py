"""ListGroups, 0 to 5: the groups of this node, by state and kind if asked for."""

from __future__ import annotations

from headrace.broker.groups.hosted import Hosted
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import LIST_GROUPS

CLASSIC = "classic"


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    version = context.version
    request = messages.decode(LIST_GROUPS, version, buffer, at, end)
    schema = messages.schema("response", LIST_GROUPS, version)
    states = {state.lower() for state in request.states_filter} if version >= 4 else set()
    kinds = {kind.lower() for kind in request.types_filter} if version >= 5 else set()
    code, found = Code.NONE, list[Hosted]()
    try:
        found = context.broker.groups.all()
    except HeadraceError as error:
        code = code_for(error)[0]
    groups = tuple(
        messages.build(
            schema.ListedGroup,
            group_id=hosted.group.id,
            protocol_type=hosted.group.protocol_type or "",
            group_state=hosted.group.state.value,
            group_type=CLASSIC,
        )
        for hosted in found
        if (not states or hosted.group.state.value.lower() in states) and (not kinds or CLASSIC in kinds)
    )
    response = messages.build(
        schema.ListGroupsResponse,
        throttle_time=messages.NO_TIME,
        error_code=messages.error_code(code),
        groups=groups,
    )
    return messages.encode(response, context.correlation_id)


API = Api(LIST_GROUPS, "ListGroups", range(6), handle)
