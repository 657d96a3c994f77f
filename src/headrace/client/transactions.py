"""Administration of transactions: which there are, what is open, and ending those that nobody ends.

Two ways end a transaction from outside, as Kafka's own tools do it:

- `abort_transaction(id)` asks the coordinator for the transactional id anew, as a producer does that restarts: the
  old one is fenced and what it had open is aborted. This is the way for a producer that hangs.
- `abort_hanging(...)` writes the abort marker into one partition, past the coordinator: for a transaction that the
  partition has open and the coordinator knows nothing of.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any, Final

from headrace.client.apis import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
)
from headrace.client.asking import checked_partition
from headrace.client.connection import Connection
from headrace.client.coordinators import MOVING, TRANSACTION, Coordinated
from headrace.client.group_values import ProducerState, Transaction, TransactionListing
from headrace.client.refusals import MISDIRECTED, error_of
from headrace.client.values import TopicPartition
from headrace.errors import InvalidTransactionState
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

ANY_DURATION: Final = -1
NEVER_COORDINATED: Final = 0  # the coordinator's epoch in a marker for a producer that had none yet
ONGOING: Final = "Ongoing"
OPEN: Final = frozenset({ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})  # nobody reads past these yet
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS: Final = datetime.timedelta(milliseconds=1)


class Transactions(Coordinated):
    """The part of Admin that is about transactions."""

    async def list_transactions(
        self, states: Iterable[str] = (), producer_ids: Iterable[int] = (), open_for_ms: int | None = None
    ) -> list[TransactionListing]:
        """Of all nodes, by id; only those in one of the states, of these producers, open for that long."""
        wanted = {"state_filters": tuple(states), "producer_id_filters": tuple(producer_ids)}
        duration = ANY_DURATION if open_for_ms is None else open_for_ms

        def fill(schema: Any) -> Any:
            return messages.build(schema.ListTransactionsRequest, duration_filter=duration, **wanted)

        found: dict[str, TransactionListing] = {}
        for node in (await self._asking.metadata.cluster_now()).nodes:
            answer = await self._coordinators.ask_node(
                node.id, LIST_TRANSACTIONS, fill, lambda found: found.error_code.value
            )
            _check(answer.error_code.value, f"the transactions of node {node.id}")
            if strange := answer.unknown_state_filters:
                raise ValueError(f"the broker knows no state {', '.join(strange)}")
            for one in answer.transaction_states:
                name = str(one.transactional_id)
                found[name] = TransactionListing(name, one.transaction_state, int(one.producer_id), node.id)
        return [found[name] for name in sorted(found)]

    async def describe_transactions(self, ids: Iterable[str]) -> list[Transaction]:
        """In the order of the ids; UnknownTransactionalId when there is none."""
        return [await self._described_transaction(name) for name in ids]

    async def describe_producers(
        self, topic: str, partitions: Iterable[int] | None = None
    ) -> dict[int, tuple[ProducerState, ...]]:
        """By partition, the producers that its leader remembers."""
        count = len((await self._asking.metadata.topic(topic)).partitions)
        indexes = range(count) if partitions is None else tuple(partitions)
        for index in indexes:
            checked_partition(count, topic, index)

        async def ask(connection: Connection, asked: dict[int, None]) -> dict[int, tuple[ProducerState, ...]]:
            def fill(schema: Any) -> Any:
                return schema.DescribeProducersRequest(
                    topics=(schema.TopicRequest(name=topic, partition_indexes=tuple(asked)),)
                )

            answer = await connection.ask(DESCRIBE_PRODUCERS, fill, self._asking.timeout)
            found = {}
            for one in (part for name in answer.topics for part in name.partitions):
                code = one.error_code.value
                if code not in MISDIRECTED:
                    _check(code, f"topic {topic!r} partition {one.partition_index}", one.error_message)
                    found[int(one.partition_index)] = tuple(_producer(state) for state in one.active_producers)
            return found

        return await self._asking.leaders(topic, dict.fromkeys(indexes, None), ask)

    async def fence_producer(self, transactional_id: str, timeout_ms: int = 60_000) -> tuple[int, int]:
        """Takes the id from whoever has it, aborting what is open; the producer id and epoch that it has then.

        As a producer does that starts with the id: one that there is not is made, and `timeout_ms` is its time
        limit for transactions until the next producer brings its own.
        """
        request = InitProducerIdRequest(transactional_id, timeout_ms)

        def codes(answer: InitProducerIdResponse) -> list[int]:
            return [answer.error]

        # Twice is as good as once: the second fences only what the first made.
        passing = MOVING | {int(Code.CONCURRENT_TRANSACTIONS)}
        _, answer = await self._coordinators.ask(
            TRANSACTION, transactional_id, INIT_PRODUCER_ID, request, codes, passing=passing
        )
        _check(answer.error, f"transactional id {transactional_id!r}")
        return answer.producer_id, answer.producer_epoch

    async def abort_transaction(self, transactional_id: str) -> Transaction:
        """Ends what the id has open, and fences its producer; gives what was open, InvalidTransactionState when
        nothing was."""
        found = await self._described_transaction(transactional_id)
        if found.state != ONGOING:  # one whose end has begun ends as it was meant to
            raise InvalidTransactionState(
                f"transactional id {transactional_id!r} has no open transaction; its state is {found.state}"
            )
        await self.fence_producer(transactional_id, found.timeout_ms)
        return found

    async def abort_hanging(self, topic: str, partition: int, start_offset: int) -> ProducerState:
        """Writes an abort marker for the transaction that began at this offset of this partition, and is open."""
        known = await self.describe_producers(topic, [partition])
        producer = next((one for one in known[partition] if one.transaction_start == start_offset), None)
        if producer is None:
            raise InvalidTransactionState(
                f"topic {topic!r} partition {partition} has no open transaction that began at {start_offset}"
            )
        await self._write_abort(topic, partition, producer)
        return producer

    async def _write_abort(self, topic: str, partition: int, producer: ProducerState) -> None:
        async def ask(connection: Connection, asked: dict[int, None]) -> dict[int, int]:
            def fill(schema: Any) -> Any:
                where = schema.WritableTxnMarkerTopic(name=topic, partition_indexes=tuple(asked))
                marker = schema.WritableTxnMarker(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    transaction_result=False,
                    topics=(where,),
                    coordinator_epoch=max(producer.coordinator_epoch, NEVER_COORDINATED),
                )
                return schema.WriteTxnMarkersRequest(markers=(marker,))

            answer = await connection.ask(WRITE_TXN_MARKERS, fill, self._asking.timeout)
            found = {}
            for one in (part for mark in answer.markers for name in mark.topics for part in name.partitions):
                code = one.error_code.value
                if code not in MISDIRECTED:
                    _check(code, f"topic {topic!r} partition {partition}, producer {producer.producer_id}")
                    found[int(one.partition_index)] = code
            return found

        await self._asking.leaders(topic, {partition: None}, ask, is_repeatable=False)

    async def _described_transaction(self, name: str) -> Transaction:
        def fill(schema: Any) -> Any:
            return schema.DescribeTransactionsRequest(transactional_ids=(name,))

        def codes(answer: Any) -> list[int]:
            return [one.error_code.value for one in answer.transaction_states]

        node_id, answer = await self._coordinators.ask(TRANSACTION, name, DESCRIBE_TRANSACTIONS, fill, codes)
        (found,) = answer.transaction_states
        _check(found.error_code.value, f"transactional id {name!r}")
        started_ms = (found.transaction_start_time - _EPOCH) // _MS
        return Transaction(
            name,
            found.transaction_state,
            int(found.producer_id),
            int(found.producer_epoch),
            found.transaction_timeout // _MS,
            started_ms if started_ms >= 0 else None,
            node_id,
            tuple(
                sorted(
                    TopicPartition(str(topic.topic), int(index)) for topic in found.topics for index in topic.partitions
                )
            ),
        )


def _producer(state: Any) -> ProducerState:
    start = int(state.current_txn_start_offset)
    return ProducerState(
        int(state.producer_id),
        int(state.producer_epoch),
        int(state.last_sequence),
        int(state.last_timestamp),
        int(state.coordinator_epoch),
        start if start >= 0 else None,
    )


def _check(code: int, what: str, words: str | None = None) -> None:
    if code:
        raise error_of(code, what, words)
