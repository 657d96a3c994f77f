"""AddOffsetsToTxn, 0 to 4: the positions of a group become part of a transaction."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from headrace.broker.transactions.marking import OFFSETS_TOPIC
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, ProducerFenced
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import ADD_OFFSETS_TO_TXN

_FENCED_FROM = 2  # a client before it knows only INVALID_PRODUCER_EPOCH


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _answer(messages.decode(ADD_OFFSETS_TO_TXN, context.version, buffer, at, end), context)


async def _answer(request: Any, context: Context) -> bytes:
    schema = messages.schema("response", ADD_OFFSETS_TO_TXN, context.version)
    broker, code = context.broker, Code.NONE
    try:
        if not request.transactional_id:
            code = Code.INVALID_REQUEST
        elif not request.group_id:
            code = Code.INVALID_GROUP_ID
        else:
            place = (OFFSETS_TOPIC, broker.groups.state.partition_for(request.group_id))
            await broker.transactions.add(
                request.transactional_id, request.producer_id, request.producer_epoch, [place]
            )
    except HeadraceError as error:
        code = code_for(error)[0]
        if isinstance(error, ProducerFenced) and context.version < _FENCED_FROM:
            code = Code.INVALID_PRODUCER_EPOCH
    response = schema.AddOffsetsToTxnResponse(throttle_time=messages.NO_TIME, error_code=messages.error_code(code))
    return messages.encode(response, context.correlation_id)


API = Api(ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", range(5), handle)
