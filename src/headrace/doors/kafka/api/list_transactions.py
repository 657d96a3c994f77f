"""ListTransactions, 0 to 2: the transactional ids that are known, by state, producer, age (1) and pattern (2)."""

from __future__ import annotations

import re
from typing import Any

from headrace.broker.transactions.transaction import State, Transaction
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import LIST_TRANSACTIONS

MAX_SHOWN = 50_000  # in one answer, some megabytes
# A pattern is a stranger's, and tried on every id while all wait: it may have no more than this many repetitions and no
# group, so that it takes no longer than the square of an id's length.
MAX_PATTERN_CHARS, MAX_REPETITIONS, MAX_MATCHED_CHARS = 200, 2, 1000
_STATES = {state.shown: state for state in State if state != State.DEAD}
_NO_FILTER = -1


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    request = messages.decode(LIST_TRANSACTIONS, context.version, buffer, at, end)
    schema = messages.schema("response", LIST_TRANSACTIONS, context.version)
    code, found = Code.NONE, []
    pattern = getattr(request, "transactional_id_pattern", None)
    try:
        matches = _matcher(pattern)
        found = [one for one in context.broker.transactions.transactions() if _wanted(context, request, one)]
        found = [one for one in found if matches is None or matches.fullmatch(one.id[:MAX_MATCHED_CHARS])]
        found = found[:MAX_SHOWN]
    except re.error:
        code = Code.INVALID_REGULAR_EXPRESSION
    except HeadraceError as error:
        code = code_for(error)[0]
    response = schema.ListTransactionsResponse(
        throttle_time=messages.NO_TIME,
        error_code=messages.error_code(code),
        unknown_state_filters=tuple(name for name in request.state_filters if name not in _STATES),
        transaction_states=tuple(
            schema.TransactionState(
                transactional_id=one.id, producer_id=one.producer_id, transaction_state=one.state.shown
            )
            for one in found
        ),
    )
    return messages.encode(response, context.correlation_id)


def _matcher(pattern: str | None) -> re.Pattern[str] | None:
    if not pattern:
        return None
    repetitions = sum(char in "*+?{" for char in pattern)
    if len(pattern) > MAX_PATTERN_CHARS or repetitions > MAX_REPETITIONS or any(char in "()" for char in pattern):
        raise re.error("too costly")
    return re.compile(pattern)


def _wanted(context: Context, request: Any, one: Transaction) -> bool:
    if request.state_filters and one.state not in [_STATES.get(name) for name in request.state_filters]:
        return False
    if request.producer_id_filters and one.producer_id not in request.producer_id_filters:
        return False
    duration_ms = getattr(request, "duration_filter", _NO_FILTER)
    if duration_ms < 0:
        return True
    return one.started_ms >= 0 and context.broker.clock.now_ms() - one.started_ms > duration_ms


API = Api(LIST_TRANSACTIONS, "ListTransactions", range(3), handle)
