"""DescribeTransactions, 0: the transaction of each transactional id, or how its last one ended."""

from __future__ import annotations

import datetime
from collections.abc import Awaitable
from typing import Any

from headrace.broker.transactions.transaction import NONE, Transaction
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.names import to_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, UnknownTransactionalId
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import DESCRIBE_TRANSACTIONS


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _answer(messages.decode(DESCRIBE_TRANSACTIONS, context.version, buffer, at, end), context)


async def _answer(request: Any, context: Context) -> bytes:
    schema = messages.schema("response", DESCRIBE_TRANSACTIONS, context.version)
    states = [await _state(schema, context, name) for name in dict.fromkeys(request.transactional_ids)]
    response = schema.DescribeTransactionsResponse(throttle_time=messages.NO_TIME, transaction_states=tuple(states))
    return messages.encode(response, context.correlation_id)


async def _state(schema: Any, context: Context, name: str) -> Any:
    transactions, known = context.broker.transactions, None
    code = Code.NONE
    try:
        await transactions.ready(name)
        known = transactions.get(name)
        if known is None:
            raise UnknownTransactionalId(f"no transaction is known by the id {name!r}")
    except HeadraceError as error:
        code = code_for(error)[0]
    shown = known or Transaction(name, NONE, NONE, 0)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(shown.partitions):
        topics.setdefault(to_kafka(topic), []).append(partition)
    return schema.TransactionState(
        error_code=messages.error_code(code),
        transactional_id=name,
        transaction_state=shown.state.shown if known is not None else "",
        transaction_timeout=datetime.timedelta(milliseconds=shown.timeout_ms),
        transaction_start_time=messages.time_of(shown.started_ms),
        producer_id=shown.producer_id,
        producer_epoch=shown.epoch,
        topics=tuple(
            schema.TopicData(topic=topic, partitions=tuple(partitions)) for topic, partitions in topics.items()
        ),
    )


API = Api(DESCRIBE_TRANSACTIONS, "DescribeTransactions", range(1), handle)
