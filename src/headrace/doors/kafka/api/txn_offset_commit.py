"""TxnOffsetCommit, 0 to 5: positions of a group that count when the transaction is committed. From version 5 on the
partition that holds them is added to the transaction here; an older client has done it by AddOffsetsToTxn, and it is
checked (KIP-890): in the same moment in which they are staged, so that no end of the transaction lies between.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.groups.positions import Commit, Position
from headrace.broker.transactions.marking import OFFSETS_TOPIC
from headrace.broker.transactions.transaction import EPOCH_ON_EACH_END, Place
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import (
    CoordinatorUnavailable,
    HeadraceError,
    InvalidGroupId,
    InvalidTransactionState,
    TransactionAbortable,
    UnknownTopic,
)
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code, InvalidRequest
from headrace.wire.kafka.header import TXN_OFFSET_COMMIT

_MEMBERS_FROM = 3
_ABORTABLE_FROM = 4
_ADDS_FROM = 5


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _answer(messages.decode(TXN_OFFSET_COMMIT, context.version, buffer, at, end), context)


async def _answer(request: Any, context: Context) -> bytes:
    code = Code.NONE
    known, refused = _sorted(request, context)
    try:
        if known:
            await _pend(request, context, refused)
    except HeadraceError as error:
        code = _code(error, context.version)
    schema = messages.schema("response", TXN_OFFSET_COMMIT, context.version)
    topics = []
    for topic in request.topics:
        partitions = []
        for one in topic.partitions:
            told = refused.get((topic.name, one.partition_index), code)
            partitions.append(
                schema.TxnOffsetCommitResponsePartition(
                    partition_index=one.partition_index, error_code=messages.error_code(told)
                )
            )
        topics.append(schema.TxnOffsetCommitResponseTopic(name=topic.name, partitions=tuple(partitions)))
    response = schema.TxnOffsetCommitResponse(throttle_time=messages.NO_TIME, topics=tuple(topics))
    return messages.encode(response, context.correlation_id)


def _sorted(request: Any, context: Context) -> tuple[list[Commit], dict[Place, Code]]:
    """The positions that can be kept, and why the others cannot, by their places."""
    known: list[Commit] = []
    refused: dict[Place, Code] = {}
    longest = context.broker.groups.settings.metadata_max_bytes
    now_ms = context.broker.clock.now_ms()
    for topic in request.topics:
        found = context.broker.topic(from_kafka(topic.name))
        count = len(found.partitions) if found is not None else 0
        for one in topic.partitions:
            if found is None or not 0 <= one.partition_index < count:
                refused[topic.name, one.partition_index] = Code.UNKNOWN_TOPIC_OR_PARTITION
                continue
            if len((one.committed_metadata or "").encode()) > longest:
                refused[topic.name, one.partition_index] = Code.OFFSET_METADATA_TOO_LARGE
                continue
            epoch = getattr(one, "committed_leader_epoch", -1)
            position = Position(one.committed_offset, epoch, one.committed_metadata or "", now_ms)
            known.append((found.name, one.partition_index, position))
    return known, refused


async def _pend(request: Any, context: Context, refused: dict[Place, Code]) -> None:
    broker, transactions = context.broker, context.broker.transactions
    if not request.group_id:
        raise InvalidGroupId("a group has a name")
    if not request.transactional_id:
        raise InvalidRequest("no transactional id")
    producer = (request.transactional_id, request.producer_id, request.producer_epoch)
    place = await _place(broker, request.group_id)
    if context.version >= _ADDS_FROM:
        await transactions.add(*producer, [place], EPOCH_ON_EACH_END)
    else:
        await transactions.ready(request.transactional_id)
    promise = broker.new_promise()

    def done(error: HeadraceError | None) -> None:
        if not promise.done():
            promise.set_result(None) if error is None else promise.set_exception(error)

    member = ("", None, -1)
    if context.version >= _MEMBERS_FROM:
        member = (request.member_id, request.group_instance_id, request.generation_id)
    transactions.verify(*producer, place)
    commits, late = _sorted(request, context)  # a topic may have gone meanwhile
    refused |= late
    broker.groups.pend_offsets(request.group_id, request.producer_id, request.producer_epoch, commits, done, *member)
    await promise


async def _place(broker: Broker, group_id: str) -> Place:
    """Where the group's positions are kept, open: what is staged there is staged at once."""
    state = broker.groups.state
    if state.topic is None:
        await broker.make_sure_of([state.wish])
    if state.topic is None:
        raise CoordinatorUnavailable(f"{OFFSETS_TOPIC} could not be made")
    place = (OFFSETS_TOPIC, state.partition_for(group_id))
    await state.topic.partitions[place[1]].opened()
    return place


def _code(error: HeadraceError, version: int) -> Code:
    if isinstance(error, TransactionAbortable) and version < _ABORTABLE_FROM:
        error = InvalidTransactionState(str(error))
    if isinstance(error, UnknownTopic):  # the topic of positions itself
        error = CoordinatorUnavailable(str(error))
    return code_for(error)[0]


API = Api(TXN_OFFSET_COMMIT, "TxnOffsetCommit", range(6), handle)
