"""EndTxn, 0 to 5: a transaction is committed or aborted. From version 5 on each end raises the producer's epoch, and
the answer tells it (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from headrace.broker.transactions.transaction import EPOCH_ON_EACH_END, NONE
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, ProducerFenced
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import END_TXN

_FENCED_FROM = 2  # a client before it knows only INVALID_PRODUCER_EPOCH
_RAISES_FROM = 5


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _answer(messages.decode(END_TXN, context.version, buffer, at, end), context)


async def _answer(request: Any, context: Context) -> bytes:
    schema = messages.schema("response", END_TXN, context.version)
    version = EPOCH_ON_EACH_END if context.version >= _RAISES_FROM else 0
    producer, code = (NONE, NONE), Code.NONE
    try:
        if not request.transactional_id:
            code = Code.INVALID_REQUEST
        else:
            producer = await context.broker.transactions.end(
                request.transactional_id, request.producer_id, request.producer_epoch, request.committed, version
            )
    except HeadraceError as error:
        code = code_for(error)[0]
        if isinstance(error, ProducerFenced) and context.version < _FENCED_FROM:
            code = Code.INVALID_PRODUCER_EPOCH
    response = messages.build(
        schema.EndTxnResponse,
        throttle_time=messages.NO_TIME,
        error_code=messages.error_code(code),
        producer_id=producer[0],
        producer_epoch=producer[1],
    )
    return messages.encode(response, context.correlation_id)


API = Api(END_TXN, "EndTxn", range(6), handle)
