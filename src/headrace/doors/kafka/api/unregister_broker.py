"""UnregisterBroker, 0: to forget a node that is gone. The one that is asked is not."""

from __future__ import annotations

from headrace.doors.kafka.context import Context
from headrace.doors.kafka.finding import outcome
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, UnknownNode
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import InvalidRequest
from headrace.wire.kafka.header import UNREGISTER_BROKER


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    request = messages.decode(UNREGISTER_BROKER, context.version, buffer, at, end)
    schema = messages.schema("response", UNREGISTER_BROKER, context.version)
    error: HeadraceError = UnknownNode(f"there is no node {request.broker_id}")
    if request.broker_id == context.broker.node_id:
        error = InvalidRequest(f"node {request.broker_id} is the one that answers: it is not gone")
    response = schema.UnregisterBrokerResponse(throttle_time=messages.NO_TIME, **outcome(error))
    return messages.encode(response, context.correlation_id)


API = Api(UNREGISTER_BROKER, "UnregisterBroker", range(1), handle)
