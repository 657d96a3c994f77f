"""Heartbeat, 0 to 4: a member lives, and hears whether its group rebalances. Answered at once."""

from __future__ import annotations

from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.registry import Api
from headrace.ports import Buffer
from headrace.wire.kafka import heartbeat as wire
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import HEARTBEAT


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    group_id, generation, member_id, instance_id = wire.decode_request(buffer, at, end, context.version)
    error = context.broker.groups.heartbeat(group_id, member_id, generation, instance_id)
    code = Code.NONE if error is None else code_for(error)[0]
    return wire.encode_response(context.version, context.correlation_id, code)


API = Api(HEARTBEAT, "Heartbeat", range(wire.OLDEST, wire.NEWEST + 1), handle)
