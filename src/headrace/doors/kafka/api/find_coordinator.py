"""FindCoordinator, 0 to 6: whose business a group, a transaction or a share group is. Always this node's.

That this node does not serve them (yet) is said by what it advertises: a client that needs JoinGroup, OffsetCommit or
a transaction finds out from ApiVersions, or is refused by InitProducerId, at once and in words. To answer here that
nobody coordinates would be worse. Clients take it for something that passes: they ask again for ever, and one that
reads partitions it was assigned, and has no business with a coordinator, then hangs when it closes.

It has to be advertised anyway: librdkafka takes a broker without it for one from before lz4, and drops the codec
without a word.
"""

from __future__ import annotations

from typing import Any

from headrace.doors.kafka.context import Context
from headrace.doors.kafka.registry import Api
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import FIND_COORDINATOR

_KINDS_FROM = {0: 0, 1: 1, 2: 6}  # groups, transactions, share groups: the version that first may ask for this kind
_KEYS_FROM = 4


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    request = messages.decode(FIND_COORDINATOR, context.version, buffer, at, end)
    kind = request.key_type if context.version >= 1 else 0
    known = context.version >= _KINDS_FROM.get(kind, context.version + 1)
    return messages.encode(_response(request, context, None if known else kind), context.correlation_id)


def _response(request: Any, context: Context, unknown_kind: int | None) -> Any:
    version = context.version
    schema = messages.schema("response", FIND_COORDINATOR, version)
    if unknown_kind is None:
        host, port = context.listener
        answer = {"node_id": context.broker.node_id, "host": host, "port": port}
        code, text = Code.NONE, None
    else:
        answer = {"node_id": -1, "host": "", "port": -1}
        code, text = Code.INVALID_REQUEST, f"there is no kind {unknown_kind} of coordinator"
    answer["error_code"] = messages.error_code(code)
    if version >= 1:
        answer["error_message"] = text
    if version < _KEYS_FROM:
        throttle = {"throttle_time": messages.NO_TIME} if version >= 1 else {}
        return schema.FindCoordinatorResponse(**throttle, **answer)
    coordinators = tuple(schema.Coordinator(key=key, **answer) for key in request.coordinator_keys)
    return schema.FindCoordinatorResponse(throttle_time=messages.NO_TIME, coordinators=coordinators)


API = Api(FIND_COORDINATOR, "FindCoordinator", range(7), handle)
