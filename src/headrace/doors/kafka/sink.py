"""The private request of a streaming sink: docs/transactions.md says what it is for. Not advertised."""

from __future__ import annotations

from collections.abc import Awaitable

from headrace.broker.transactions.events import (
    SEPARATOR,
    AbortBatch,
    CommitBatch,
    OpenMember,
    RenewMembers,
    member_id,
)
from headrace.broker.transactions.sink import FORGOTTEN
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError
from headrace.ports import Buffer
from headrace.wire.kafka import sink as wire
from headrace.wire.kafka.errors import InvalidRequest
from headrace.wire.kafka.sink import Action


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _answer(wire.decode_request(buffer, at, end, context.version), context)


async def _answer(request: wire.SinkRequest, context: Context) -> bytes:
    try:
        answer = await _asked(request, context)
    except HeadraceError as error:
        code, text = code_for(error)
        answer = wire.SinkResponse(code, text)
    return wire.encode_response(context.version, context.correlation_id, answer)


async def _asked(request: wire.SinkRequest, context: Context) -> wire.SinkResponse:
    broker, query = context.broker, request.query
    if request.action is Action.DRAW:
        return wire.SinkResponse(0, first=await broker.new_producer_id())
    if request.action is Action.LIST:
        return _page(request.query, context)
    if not query or SEPARATOR in query:
        raise InvalidRequest(f"a query has a name without {SEPARATOR!r}")
    asked = broker.transactions.ask_sink
    match request.action:
        case Action.OPEN:
            if not request.task or SEPARATOR in request.task:
                raise InvalidRequest(f"a task has a name without {SEPARATOR!r}")
            given = await asked(OpenMember, query, request.number, request.task, request.timeout_ms)
            return wire.SinkResponse(0, None, member_id(query, request.task), *given)
        case Action.RENEW:
            return wire.SinkResponse(0, None, None, *await asked(RenewMembers, query, request.number))
        case Action.FORGET:
            return wire.SinkResponse(0, first=FORGOTTEN, second=await broker.transactions.forget_ledger(query))
        case Action.COMMIT:
            found = await asked(CommitBatch, query, request.number, tuple(request.members))
        case _:
            found = await asked(AbortBatch, query, request.number, tuple(request.members))
    return wire.SinkResponse(0, None, None, *found)


def _page(after: str, context: Context) -> wire.SinkResponse:
    found, has_more, total = context.broker.transactions.ledgers(after)
    ledgers = [
        wire.LedgerEntry(known.query, known.write_epoch, known.batch, known.changed_ms, open_members)
        for known, open_members in found
    ]
    return wire.SinkResponse(0, None, None, int(has_more), total, ledgers)


API = Api(wire.SINK, "Sink", range(2), handle)
