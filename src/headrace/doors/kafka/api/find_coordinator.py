"""FindCoordinator, 0 to 6: which node keeps a group or a transaction. A lone node keeps them all; share groups are not
kept yet, and what does not advertise their requests is not asked for them.

It has to be advertised whatever is kept: librdkafka takes a broker without it for one from before lz4, and drops the
codec without a word.
"""

from __future__ import annotations

from headrace.doors.kafka.context import Context
from headrace.doors.kafka.registry import Api
from headrace.ports import Buffer
from headrace.wire.kafka import find_coordinator as wire
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import FIND_COORDINATOR

_KINDS_FROM = {0: 0, 1: 1, 2: 6}  # groups, transactions, share groups: the version that first may ask for this kind


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    request = wire.decode_request(buffer, at, end, context.version)
    if context.version >= _KINDS_FROM.get(request.kind, wire.NEWEST + 1):
        host, port = context.listener
        found = [wire.Coordinator(key, context.broker.node_id, host, port) for key in request.keys]
    else:
        text = f"there is no kind {request.kind} of coordinator"
        found = [wire.Coordinator(key, -1, "", -1, Code.INVALID_REQUEST, text) for key in request.keys]
    return wire.encode_response(context.version, context.correlation_id, found)


API = Api(FIND_COORDINATOR, "FindCoordinator", range(wire.OLDEST, wire.NEWEST + 1), handle)
