"""Transactional batches of a Produce: a partition takes the first of a transaction only when the coordinator knows that
it is part of it (KIP-890). Otherwise a batch that came late could begin a transaction that nobody ever ends.

A client from version 12 on leaves it to us to add the partition; an older one has added it itself, and we ask. What a
partition has under way already needs no asking. The check comes last, in the same moment in which the batch is staged:
whatever happened while we waited, no end of the transaction lies between.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.partition import Partition
from headrace.broker.transactions.transaction import EPOCH_ON_EACH_END
from headrace.errors import (
    ConcurrentTransactions,
    CoordinatorLoading,
    CoordinatorUnavailable,
    HeadraceError,
    InvalidRecord,
    InvalidTransactionState,
    NotEnoughReplicas,
    ProducerFenced,
    StaleProducerEpoch,
    TransactionAbortable,
)
from headrace.records.header import HEADER_BYTES, TRANSACTIONAL

if TYPE_CHECKING:
    from headrace.doors.kafka.api.produce import Part, Pending

ADDS_FROM = 12
_ABORTABLE_FROM = 11  # a client before it does not know TRANSACTION_ABORTABLE
_ATTRIBUTES_AT, _PRODUCER_AT = 22, 43
_PRODUCER = struct.Struct(">qh")


class Writer(NamedTuple):
    producer_id: int
    epoch: int


def has_to_wait(pending: Pending, buffer: memoryview) -> bool:
    """For the coordinator, because a partition is not known to be part of the transaction."""
    return any(_is_unknown(pending, part, buffer) for part in pending.parts)


async def join(pending: Pending, buffer: memoryview) -> None:
    """Adds what can be added; `check` tells who is not in."""
    request, version = pending.request, pending.version
    transactions = pending.connection.broker.transactions
    assert request.transactional_id is not None
    wanted: dict[Writer, list[Part]] = {}
    for part in pending.parts:
        if _is_unknown(pending, part, buffer):
            wanted.setdefault(_writer(part, buffer), []).append(part)
    for writer, parts in wanted.items():
        try:
            if version >= ADDS_FROM:
                places = [(part.partition.topic.name, part.index) for part in parts if part.partition is not None]
                await transactions.add(request.transactional_id, *writer, places, EPOCH_ON_EACH_END)
            else:
                await transactions.ready(request.transactional_id)
        except HeadraceError as error:
            for part in parts:
                part.error = _told(error, version)


def check(pending: Pending, part: Part, buffer: memoryview) -> None:
    """Raises unless this batch may go into its partition now."""
    transactional_id, partition = pending.request.transactional_id, part.partition
    assert partition is not None
    if transactional_id is None:
        raise InvalidTransactionState("a transactional batch came without a transactional id")
    if part.stop - part.start < HEADER_BYTES:
        raise InvalidRecord("a batch shorter than its header")
    writer = _writer(part, buffer)
    if not partition.ongoing(*writer):
        try:
            pending.connection.broker.transactions.verify(transactional_id, *writer, _place(partition))
        except HeadraceError as error:
            raise _told(error, pending.version) from error


def _is_unknown(pending: Pending, part: Part, buffer: memoryview) -> bool:
    partition = part.partition
    if part.error is not None or partition is None or part.stop - part.start < HEADER_BYTES:
        return False
    if not buffer[part.start + _ATTRIBUTES_AT] & TRANSACTIONAL:
        return False
    writer = _writer(part, buffer)
    if partition.ongoing(*writer):
        return False
    try:
        assert pending.request.transactional_id is not None
        pending.connection.broker.transactions.verify(pending.request.transactional_id, *writer, _place(partition))
    except HeadraceError:
        return True
    return False


def _writer(part: Part, buffer: memoryview) -> Writer:
    return Writer(*_PRODUCER.unpack_from(buffer, part.start + _PRODUCER_AT))


def _place(partition: Partition) -> tuple[str, int]:
    return partition.topic.name, partition.index


def _told(error: HeadraceError, version: int) -> HeadraceError:
    """As a producer of that version understands it: what passes has to be something that it repeats."""
    if isinstance(error, ProducerFenced):
        return StaleProducerEpoch(str(error))
    if isinstance(error, TransactionAbortable) and version < _ABORTABLE_FROM:
        return InvalidTransactionState(str(error))
    if isinstance(error, ConcurrentTransactions) and version >= ADDS_FROM:
        return error
    if isinstance(error, CoordinatorLoading | CoordinatorUnavailable | ConcurrentTransactions):
        return NotEnoughReplicas(f"the coordinator of the transaction cannot say yet: {error}")
    return error
