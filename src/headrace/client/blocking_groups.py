"""The sync face of what administration does with groups, transactions and sinks; blocking.py has the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.client import client as core
from headrace.client.group_values import (
    Committed,
    Group,
    GroupListing,
    Ledger,
    ProducerState,
    Transaction,
    TransactionListing,
)
from headrace.client.groups import Where
from headrace.client.portal import Portal
from headrace.client.sinks import Member
from headrace.client.values import TopicPartition


class GroupAdmin:
    """The methods of headrace.client.groups.Groups and headrace.client.transactions.Transactions, without `await`."""

    def __init__(self, client: core.Client, portal: Portal) -> None:
        self._client, self._portal = client, portal

    def list_groups(self) -> list[GroupListing]:
        return self._portal.call(self._client.admin.list_groups())

    def describe_groups(self, names: Iterable[str]) -> list[Group]:
        return self._portal.call(self._client.admin.describe_groups(names))

    def group_offsets(self, name: str, stable: bool = False) -> dict[TopicPartition, Committed]:
        return self._portal.call(self._client.admin.group_offsets(name, stable))

    def alter_group_offsets(self, name: str, offsets: Mapping[Where, int | Committed]) -> None:
        self._portal.call(self._client.admin.alter_group_offsets(name, offsets))

    def delete_group(self, name: str) -> None:
        self._portal.call(self._client.admin.delete_group(name))

    def delete_group_offsets(self, name: str, partitions: Iterable[Where]) -> None:
        self._portal.call(self._client.admin.delete_group_offsets(name, partitions))

    def has_sinks(self) -> bool:
        return self._portal.call(self._client.admin.has_sinks())

    def draw_write(self) -> int:
        return self._portal.call(self._client.admin.draw_write())

    def open_member(self, query: str, write: int, task: str, timeout_ms: int) -> Member:
        return self._portal.call(self._client.admin.open_member(query, write, task, timeout_ms))

    def renew_members(self, query: str, write: int) -> None:
        self._portal.call(self._client.admin.renew_members(query, write))

    def commit_batch(self, query: str, batch: int, members: Sequence[Member]) -> int:
        return self._portal.call(self._client.admin.commit_batch(query, batch, members))

    def abort_batch(self, query: str, batch: int, members: Sequence[Member]) -> bool:
        return self._portal.call(self._client.admin.abort_batch(query, batch, members))

    def ledgers(self) -> list[Ledger]:
        return self._portal.call(self._client.admin.ledgers())

    def forget_ledger(self, query: str) -> int | None:
        return self._portal.call(self._client.admin.forget_ledger(query))

    def record_times(self, offsets: Mapping[Where, int]) -> dict[TopicPartition, int]:
        return self._portal.call(self._client.admin.record_times(offsets))

    def list_transactions(
        self, states: Iterable[str] = (), producer_ids: Iterable[int] = (), open_for_ms: int | None = None
    ) -> list[TransactionListing]:
        return self._portal.call(self._client.admin.list_transactions(states, producer_ids, open_for_ms))

    def describe_transactions(self, ids: Iterable[str]) -> list[Transaction]:
        return self._portal.call(self._client.admin.describe_transactions(ids))

    def describe_producers(
        self, topic: str, partitions: Iterable[int] | None = None
    ) -> dict[int, tuple[ProducerState, ...]]:
        return self._portal.call(self._client.admin.describe_producers(topic, partitions))

    def fence_producer(self, transactional_id: str, timeout_ms: int = 60_000) -> tuple[int, int]:
        return self._portal.call(self._client.admin.fence_producer(transactional_id, timeout_ms))

    def abort_transaction(self, transactional_id: str) -> Transaction:
        return self._portal.call(self._client.admin.abort_transaction(transactional_id))

    def abort_hanging(self, topic: str, partition: int, start_offset: int) -> ProducerState:
        return self._portal.call(self._client.admin.abort_hanging(topic, partition, start_offset))
