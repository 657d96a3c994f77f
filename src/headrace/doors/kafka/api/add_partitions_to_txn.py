"""AddPartitionsToTxn, 0 to 5: partitions become part of a transaction. From version 4 on, which brokers speak among
themselves, several transactions at once, and it may be asked only whether they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.transactions.transaction import Place
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, InvalidTransactionState, ProducerFenced, TransactionAbortable
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import ADD_PARTITIONS_TO_TXN

_FENCED_FROM = 2  # a client before it knows only INVALID_PRODUCER_EPOCH
_SEVERAL_FROM = 4
_ABORTABLE_FROM = 5

Codes = dict[Place, Code]


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _answer(messages.decode(ADD_PARTITIONS_TO_TXN, context.version, buffer, at, end), context)


async def _answer(request: Any, context: Context) -> bytes:
    schema = messages.schema("response", ADD_PARTITIONS_TO_TXN, context.version)
    if context.version >= _SEVERAL_FROM:
        results = []
        for one in request.transactions:
            producer = (one.transactional_id, one.producer_id, one.producer_epoch)
            codes = await _codes(context, producer, one.topics, one.verify_only)
            results.append(
                schema.AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id, topic_results=_topics(schema, one.topics, codes)
                )
            )
        response = schema.AddPartitionsToTxnResponse(
            throttle_time=messages.NO_TIME,
            error_code=messages.error_code(Code.NONE),
            results_by_transaction=tuple(results),
        )
    else:
        producer = (
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )
        topics = request.v3_and_below_topics
        codes = await _codes(context, producer, topics, False)
        response = schema.AddPartitionsToTxnResponse(
            throttle_time=messages.NO_TIME, results_by_topic_v3_and_below=_topics(schema, topics, codes)
        )
    return messages.encode(response, context.correlation_id)


async def _codes(context: Context, producer: tuple[str, int, int], topics: Sequence[Any], verify_only: bool) -> Codes:
    """All or none: where a partition does not exist, the others are not attempted."""
    broker = context.broker
    places = [(topic.name, index) for topic in topics for index in topic.partitions]
    unknown = {place for place in places if not _exists(broker, place)}
    if unknown:
        return {
            place: Code.UNKNOWN_TOPIC_OR_PARTITION if place in unknown else Code.OPERATION_NOT_ATTEMPTED
            for place in places
        }
    if not producer[0]:
        return dict.fromkeys(places, Code.INVALID_REQUEST)
    try:
        if verify_only:
            return await _verified(context, producer, places)
        await broker.transactions.add(*producer, [(from_kafka(name), index) for name, index in places])
        return dict.fromkeys(places, Code.NONE)
    except HeadraceError as error:
        return dict.fromkeys(places, _code(error, context.version))


async def _verified(context: Context, producer: tuple[str, int, int], places: list[Place]) -> Codes:
    transactions = context.broker.transactions
    await transactions.ready(producer[0])
    codes: Codes = {}
    for name, index in places:
        try:
            transactions.verify(*producer, (from_kafka(name), index))
            codes[name, index] = Code.NONE
        except HeadraceError as error:
            codes[name, index] = _code(error, context.version)
    return codes


def _code(error: HeadraceError, version: int) -> Code:
    if isinstance(error, ProducerFenced) and version < _FENCED_FROM:
        return Code.INVALID_PRODUCER_EPOCH
    if isinstance(error, TransactionAbortable) and version < _ABORTABLE_FROM:
        error = InvalidTransactionState(str(error))
    return code_for(error)[0]


def _exists(broker: Broker, place: Place) -> bool:
    topic = broker.topic(from_kafka(place[0]))
    return topic is not None and 0 <= place[1] < len(topic.partitions)


def _topics(schema: Any, topics: Sequence[Any], codes: Codes) -> tuple[Any, ...]:
    return tuple(
        schema.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                schema.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=messages.error_code(codes[topic.name, index])
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )


API = Api(ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", range(6), handle)
