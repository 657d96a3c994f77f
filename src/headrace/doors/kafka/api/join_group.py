"""JoinGroup, 0 to 9: a member comes, or comes again, and is answered when the next generation of its group begins."""

from __future__ import annotations

from headrace.broker.groups.events import Join, Joined
from headrace.doors.kafka.answers import Later
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.registry import Api
from headrace.ports import Buffer
from headrace.wire.kafka import join_group as wire
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import JOIN_GROUP


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Later[Joined]:
    version, groups = context.version, context.broker.groups
    request = wire.decode_request(buffer, at, end, version)
    client_id = context.client_id or ""

    def encode(joined: Joined) -> bytes:
        code = Code.NONE if joined.error is None else code_for(joined.error)[0]
        members = [wire.JoinGroupMember(*member) for member in joined.members]
        response = wire.JoinGroupResponse(
            code,
            joined.generation,
            joined.protocol_type,
            joined.protocol,
            joined.leader,
            joined.skip_assignment,
            joined.member_id,
            members,
        )
        return wire.encode_response(version, context.correlation_id, response)

    later = Later(encode)
    event = Join(
        later.give,
        request.member_id,
        groups.new_member_id(request.instance_id or client_id),
        request.protocol_type,
        request.protocols,
        request.session_ms,
        request.rebalance_ms,
        request.instance_id,
        client_id,
        f"/{context.peer_host}",
        asks_twice=version >= wire.ASKS_TWICE_FROM,
        may_skip=version >= wire.MAY_SKIP_FROM,
    )
    groups.join(request.group_id, event)
    return later


API = Api(JOIN_GROUP, "JoinGroup", range(wire.OLDEST, wire.NEWEST + 1), handle)
