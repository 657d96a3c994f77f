"""DescribeGroups, 0 to 6: groups with their members. One that nobody knows is Dead; from version 6 on an error says
so."""

from __future__ import annotations

from typing import Any

from headrace.broker.groups.generation import State
from headrace.broker.groups.group import Group
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.operations import GROUP_OPERATIONS, NOT_ASKED
from headrace.doors.kafka.registry import Api
from headrace.errors import GroupNotFound, HeadraceError, LimitReached
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import DESCRIBE_GROUPS

DEAD = "Dead"
MAX_BYTES = 64 << 20  # of members in one answer: tens of thousands of groups, or a few of the largest
_NOT_FOUND_FROM = 6
_OPERATIONS_FROM = 3


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    version = context.version
    request = messages.decode(DESCRIBE_GROUPS, version, buffer, at, end)
    schema = messages.schema("response", DESCRIBE_GROUPS, version)
    asked = version >= _OPERATIONS_FROM and request.include_authorized_operations
    operations = GROUP_OPERATIONS if asked else NOT_ASKED
    room = Room(MAX_BYTES)
    groups = tuple(_described(context, schema, group_id, operations, room) for group_id in request.groups)
    response = messages.build(schema.DescribeGroupsResponse, throttle_time=messages.NO_TIME, groups=groups)
    return messages.encode(response, context.correlation_id)


class Room:
    """What one answer may still hold."""

    def __init__(self, left_bytes: int) -> None:
        self._left_bytes = left_bytes

    def take(self, size: int) -> None:
        if size > self._left_bytes:
            raise LimitReached(f"groups of more than {MAX_BYTES} bytes in one answer: ask for fewer at once")
        self._left_bytes -= size


def _described(context: Context, schema: Any, group_id: str, operations: int, room: Room) -> Any:
    code, text, state, protocol_type, protocol = Code.NONE, None, "", "", ""
    members: tuple[Any, ...] = ()
    try:
        hosted = context.broker.groups.find(group_id)
        if hosted is not None:
            group = hosted.group
            room.take(group.held_bytes)
            is_stable = group.state is State.STABLE
            state, protocol_type = group.state.value, group.protocol_type or ""
            protocol = (group.protocol or "") if is_stable else ""
            members = _members(schema, group, is_stable)
        else:
            state = DEAD
            if context.version >= _NOT_FOUND_FROM:
                raise GroupNotFound(f"Group {group_id} not found.")
    except HeadraceError as error:
        code, text = code_for(error)
    return messages.build(
        schema.DescribedGroup,
        error_code=messages.error_code(code),
        error_message=text,
        group_id=group_id,
        group_state=state,
        protocol_type=protocol_type,
        protocol_data=protocol,
        members=members,
        authorized_operations=operations,
    )


def _members(schema: Any, group: Group, is_stable: bool) -> tuple[Any, ...]:
    return tuple(
        messages.build(
            schema.DescribedGroupMember,
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol) if is_stable else b"",
            member_assignment=member.assignment if is_stable else b"",
        )
        for member in group.roster
    )


API = Api(DESCRIBE_GROUPS, "DescribeGroups", range(7), handle)
