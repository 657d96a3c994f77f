"""What is known of a transaction, as commands show it, and how it is asked for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from headrace.cli.names import completed, missing
from headrace.cli.output import Column
from headrace.cli.parsing import show_duration, show_seconds, show_time
from headrace.client.transactions import OPEN
from headrace.errors import UnknownTopic, UnknownTransactionalId

if TYPE_CHECKING:
    from headrace.aio import Client
    from headrace.client.group_values import ProducerState, Transaction


class TransactionRow(msgspec.Struct, frozen=True):
    id: str
    state: str
    producer_id: int
    coordinator: int


class PartitionRow(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    start: int | None  # where the transaction begins there; None: it wrote nothing yet, or has ended


class TransactionDetail(msgspec.Struct, frozen=True):
    id: str
    state: str
    producer_id: int
    producer_epoch: int
    coordinator: int
    timeout_ms: int
    started_ms: int | None
    open_seconds: float | None
    partitions: tuple[PartitionRow, ...]


class ProducerRow(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start: int | None


class Aborted(msgspec.Struct, frozen=True):
    id: str | None
    topic: str | None  # by marker, in one partition
    partition: int | None
    producer_id: int
    producer_epoch: int
    applied: bool


TRANSACTION_COLUMNS = [
    Column("id", "transactional id"),
    Column("state"),
    Column("producer_id", align="right"),
    Column("coordinator", wide=True, align="right"),
]
PARTITION_COLUMNS = [Column("topic"), Column("partition", align="right"), Column("start", align="right")]
DETAIL_COLUMNS = [
    Column("id", "transactional id"),
    Column("state"),
    Column("producer_id"),
    Column("producer_epoch", "epoch"),
    Column("coordinator", wide=True),
    Column("timeout_ms", "timeout", show=show_duration),
    Column("started_ms", "started", show=show_time),
    Column("open_seconds", "open for", show=show_seconds),
]
PRODUCER_COLUMNS = [
    Column("partition", align="right"),
    Column("producer_id", align="right"),
    Column("producer_epoch", "epoch", align="right"),
    Column("last_sequence", align="right"),
    Column("last_timestamp_ms", "last record", show=show_time),
    Column("coordinator_epoch", wide=True, align="right"),
    Column("transaction_start", "open from", align="right"),
]


def complete(incomplete: str) -> list[str]:
    return completed(incomplete, _ids)


async def _ids(client: Client) -> list[str]:
    return [one.id for one in await client.admin.list_transactions()]


TransactionalId = Annotated[str, typer.Argument(metavar="ID", help="the transactional id", autocompletion=complete)]


async def one(client: Client, transactional_id: str) -> Transaction:
    try:
        return (await client.admin.describe_transactions([transactional_id]))[0]
    except UnknownTransactionalId:
        known = await _ids(client)
    raise missing("transactional id", transactional_id, known, "headrace txn list")


async def detail_of(client: Client, transactional_id: str) -> TransactionDetail:
    found = await one(client, transactional_id)
    starts: dict[tuple[str, int], int | None] = {}
    for topic in {topic for topic, _ in found.partitions}:
        indexes = [where.partition for where in found.partitions if where.topic == topic]
        try:
            known = await client.admin.describe_producers(topic, indexes)
        except UnknownTopic:  # deleted since
            continue
        for index, states in known.items():
            own = [one.transaction_start for one in states if one.producer_id == found.producer_id]
            starts[topic, index] = next((start for start in own if start is not None), None)
    open_s = None
    if found.started_ms is not None and found.state in OPEN:
        open_s = max(0.0, time.time() - found.started_ms / 1000)
    return TransactionDetail(
        found.id,
        found.state,
        found.producer_id,
        found.producer_epoch,
        found.coordinator,
        found.timeout_ms,
        found.started_ms,
        None if open_s is None else round(open_s, 3),
        tuple(PartitionRow(*where, starts.get(where)) for where in found.partitions),
    )


def producer_row(topic: str, index: int, state: ProducerState) -> ProducerRow:
    return ProducerRow(
        topic,
        index,
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp_ms if state.last_timestamp_ms >= 0 else None,
        state.coordinator_epoch if state.coordinator_epoch >= 0 else None,
        state.transaction_start,
    )
