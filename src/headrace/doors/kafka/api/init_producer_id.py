"""InitProducerId, 0 to 5: an id for an idempotent producer, never given twice; for a transactional one the id and epoch
that its transactional id has now, which fences whoever had it before.
"""

from __future__ import annotations

from collections.abc import Awaitable

from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, ProducerFenced
from headrace.ports import Buffer
from headrace.wire.kafka import init_producer_id as wire
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import INIT_PRODUCER_ID

FIRST_EPOCH = 0
_FENCED_FROM = 4  # a client before it knows only INVALID_PRODUCER_EPOCH


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes | Awaitable[bytes]:
    request = wire.decode_request(buffer, at, end, context.version)
    is_half = (request.producer_id == wire.NO_PRODUCER_ID) != (request.producer_epoch == wire.NO_PRODUCER_EPOCH)
    if request.transactional_id == "" or is_half:  # half: an id without its epoch, or the reverse
        answer = wire.InitProducerIdResponse(Code.INVALID_REQUEST)
        return wire.encode_response(context.version, context.correlation_id, answer)
    return _answer(context, request)


async def _answer(context: Context, request: wire.InitProducerIdRequest) -> bytes:
    try:
        answer = wire.InitProducerIdResponse(Code.NONE, *await _producer(context, request))
    except HeadraceError as error:
        code = code_for(error)[0]
        if isinstance(error, ProducerFenced) and context.version < _FENCED_FROM:
            code = Code.INVALID_PRODUCER_EPOCH
        answer = wire.InitProducerIdResponse(code)
    return wire.encode_response(context.version, context.correlation_id, answer)


async def _producer(context: Context, request: wire.InitProducerIdRequest) -> tuple[int, int]:
    if request.transactional_id is None:
        return await context.broker.new_producer_id(), FIRST_EPOCH
    return await context.broker.transactions.init(
        request.transactional_id, request.timeout_ms, request.producer_id, request.producer_epoch
    )


API = Api(INIT_PRODUCER_ID, "InitProducerId", range(wire.OLDEST, wire.NEWEST + 1), handle)
