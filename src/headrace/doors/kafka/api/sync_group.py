"""SyncGroup, 0 to 5: the leader brings the assignment, and every member gets its own once that is kept."""

from __future__ import annotations

from headrace.broker.groups.events import Sync, Synced
from headrace.doors.kafka.answers import Later
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.registry import Api
from headrace.ports import Buffer
from headrace.wire.kafka import sync_group as wire
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import SYNC_GROUP


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Later[Synced]:
    request = wire.decode_request(buffer, at, end, context.version)

    def encode(synced: Synced) -> bytes:
        code = Code.NONE if synced.error is None else code_for(synced.error)[0]
        response = wire.SyncGroupResponse(code, synced.protocol_type, synced.protocol, synced.assignment)
        return wire.encode_response(context.version, context.correlation_id, response)

    later = Later(encode)
    event = Sync(
        later.give,
        request.member_id,
        request.generation,
        request.assignments,
        request.instance_id,
        request.protocol_type,
        request.protocol,
    )
    context.broker.groups.sync(request.group_id, event)
    return later


API = Api(SYNC_GROUP, "SyncGroup", range(wire.OLDEST, wire.NEWEST + 1), handle)
