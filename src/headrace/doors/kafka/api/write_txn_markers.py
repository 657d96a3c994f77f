"""WriteTxnMarkers, 1 to 2: markers from another coordinator, or from an operator who ends a transaction that hangs.
From version 2 on they say by which version of transactions they were made: with 2, an end has a higher epoch than what
it ends.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.transactions.marking import OFFSETS_TOPIC
from headrace.broker.transactions.transaction import EPOCH_ON_EACH_END
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.finding import partition_of
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, NotLeader, StorageFailed
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import WRITE_TXN_MARKERS


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _answer(messages.decode(WRITE_TXN_MARKERS, context.version, buffer, at, end), context)


async def _answer(request: Any, context: Context) -> bytes:
    schema = messages.schema("response", WRITE_TXN_MARKERS, context.version)
    results = []
    for marker in request.markers:
        topics = []
        for topic in marker.topics:
            partitions = []
            for index in topic.partition_indexes:
                code = await _mark(context.broker, marker, topic.name, index)
                partitions.append(
                    schema.WritableTxnMarkerPartitionResult(partition_index=index, error_code=messages.error_code(code))
                )
            topics.append(schema.WritableTxnMarkerTopicResult(name=topic.name, partitions=tuple(partitions)))
        results.append(schema.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=tuple(topics)))
    return messages.encode(schema.WriteTxnMarkersResponse(markers=tuple(results)), context.correlation_id)


async def _mark(broker: Broker, marker: Any, name: str, index: int) -> Code:
    """Answered when it is synced."""
    try:
        partition = await partition_of(broker, name, index).opened()
        log = partition.log
        if log is None:
            raise partition.error or NotLeader(f"{partition!r} is not open")
        staged = partition.append_marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
            broker.clock.now_ms(),
            is_bumped=getattr(marker, "transaction_version", 0) >= EPOCH_ON_EACH_END,
        )
        failed = broker.flush()
        if failed and partition in failed:
            raise failed[partition]
        if log.written_offset <= staged.last_offset:
            raise StorageFailed(f"{partition!r} did not keep the marker")
        promise = broker.new_promise()

        def done(error: HeadraceError | None) -> None:
            if not promise.done():
                promise.set_result(None) if error is None else promise.set_exception(error)

        log.when_synced(staged.last_offset + 1, done)
        await promise
    except HeadraceError as error:
        return code_for(error)[0]
    if from_kafka(name) == OFFSETS_TOPIC:
        broker.groups.end_transaction(marker.producer_id, index, marker.transaction_result)
    return Code.NONE


API = Api(WRITE_TXN_MARKERS, "WriteTxnMarkers", range(1, 3), handle)
