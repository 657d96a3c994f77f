"""InitProducerId, 0 to 5: an id for an idempotent producer, never given twice. Transactional ids need a
coordinator, which this node does not have: the answer is one that clients give up on, instead of one that
they repeat for ever.
"""

from __future__ import annotations

from collections.abc import Awaitable

from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError
from headrace.ports import Buffer
from headrace.wire.kafka import init_producer_id as wire
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import INIT_PRODUCER_ID

FIRST_EPOCH = 0


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes | Awaitable[bytes]:
    request = wire.decode_request(buffer, at, end, context.version)
    refused = _refused(request)
    if refused is not None:
        return wire.encode_response(context.version, context.correlation_id, wire.InitProducerIdResponse(refused))
    return _new_id(context)


def _refused(request: wire.InitProducerIdRequest) -> Code | None:
    if request.transactional_id == "":
        return Code.INVALID_REQUEST
    if (request.producer_id == wire.NO_PRODUCER_ID) != (request.producer_epoch == wire.NO_PRODUCER_EPOCH):
        return Code.INVALID_REQUEST  # an id without its epoch, or the reverse
    if request.transactional_id is not None:
        return Code.UNSUPPORTED_VERSION
    return None


async def _new_id(context: Context) -> bytes:
    try:
        answer = wire.InitProducerIdResponse(Code.NONE, await context.broker.new_producer_id(), FIRST_EPOCH)
    except HeadraceError as error:
        answer = wire.InitProducerIdResponse(code_for(error)[0])
    return wire.encode_response(context.version, context.correlation_id, answer)


API = Api(INIT_PRODUCER_ID, "InitProducerId", range(wire.OLDEST, wire.NEWEST + 1), handle)
