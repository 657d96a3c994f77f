"""FindCoordinator, 0 to 6.

It has to be advertised: librdkafka takes a broker without it for one from before lz4, and drops the codec
without a word. Groups, transactions and share groups are not served by this node, so nobody coordinates them.

- Of a group: COORDINATOR_NOT_AVAILABLE, "ask again later". librdkafka's consumers have a group even when they
  are told their partitions, and ask for its coordinator without need; any other code comes to the application
  as an error among its messages.
- Of the rest, which nobody asks for without need: UNSUPPORTED_VERSION, which is final, and reaches the
  application with the text.
"""

from __future__ import annotations

from typing import Any

from headrace.doors.kafka.context import Context
from headrace.doors.kafka.registry import Api
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import FIND_COORDINATOR

_GROUP = 0
_KINDS = {_GROUP: "consumer groups are", 1: "transactions are", 2: "share groups are"}
_KINDS_FROM = {0: 0, 1: 1, 2: 6}  # the version that first may ask for this kind
_KEYS_FROM = 4
_NOBODY = -1


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    request = messages.decode(FIND_COORDINATOR, context.version, buffer, at, end)
    kind = request.key_type if context.version >= 1 else 0
    if kind in _KINDS and context.version >= _KINDS_FROM[kind]:
        code = Code.COORDINATOR_NOT_AVAILABLE if kind == _GROUP else Code.UNSUPPORTED_VERSION
        text = f"{_KINDS[kind]} not served by this broker"
    else:
        code, text = Code.INVALID_REQUEST, f"there is no kind {kind} of coordinator"
    return messages.encode(_response(request, context.version, code, text), context.correlation_id)


def _response(request: Any, version: int, code: Code, text: str) -> Any:
    schema = messages.schema("response", FIND_COORDINATOR, version)
    error = messages.error_code(code)
    nobody = {"node_id": _NOBODY, "host": "", "port": -1, "error_code": error}
    if version >= 1:
        nobody["error_message"] = text
    if version < _KEYS_FROM:
        throttle = {"throttle_time": messages.NO_TIME} if version >= 1 else {}
        return schema.FindCoordinatorResponse(**throttle, **nobody)
    coordinators = tuple(schema.Coordinator(key=key, **nobody) for key in request.coordinator_keys)
    return schema.FindCoordinatorResponse(throttle_time=messages.NO_TIME, coordinators=coordinators)


API = Api(FIND_COORDINATOR, "FindCoordinator", range(7), handle)
