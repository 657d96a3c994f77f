"""LeaveGroup, 0 to 5: members go, or an administrator removes static ones by their instance ids."""

from __future__ import annotations

from headrace.broker.groups.events import Leaver
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, UnknownMember
from headrace.ports import Buffer
from headrace.wire.kafka import leave_group as wire
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import LEAVE_GROUP


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    version = context.version
    request = wire.decode_request(buffer, at, end, version)
    try:
        errors = context.broker.groups.leave(request.group_id, [Leaver(*member) for member in request.members])
    except UnknownMember as error:  # no such group; Kafka tells each of them so, and so do we
        errors = [error] * len(request.members)
    except HeadraceError as error:
        return wire.encode_response(version, context.correlation_id, code_for(error)[0])
    codes = [Code.NONE if error is None else code_for(error)[0] for error in errors]
    one = codes[0] if version < wire.SEVERAL_FROM else Code.NONE
    answered = list(zip(request.members, codes, strict=True))
    return wire.encode_response(version, context.correlation_id, one, answered)


API = Api(LEAVE_GROUP, "LeaveGroup", range(wire.OLDEST, wire.NEWEST + 1), handle)
