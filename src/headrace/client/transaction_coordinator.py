"""What a transactional producer asks of coordinators: its own, of its transactional id, and those of groups.

Kafka's second version of transactions (`transaction.version` 2) needs fewer questions and is safer: a Produce adds its
partition to the transaction by itself, and each end gives the producer another epoch, so that nothing that was late
can slip into the next transaction. Where the broker does not have it, partitions and groups are added first.

All questions here may be asked twice, and are asked again until there is an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.client.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    LEVELS,
    TXN_OFFSET_COMMIT,
)
from headrace.client.asking import Asking
from headrace.client.connection import SOFTWARE
from headrace.client.coordinators import GROUP, MOVING, TRANSACTION, Coordinator
from headrace.client.group_positions import Membership, partition_codes, put_positions
from headrace.client.group_values import Committed
from headrace.client.lane import Identity
from headrace.client.memberships import by_topic
from headrace.client.refusals import error_of
from headrace.client.values import TopicPartition
from headrace.errors import (
    ConcurrentTransactions,
    ConnectionFailed,
    CoordinatorLoading,
    CoordinatorUnavailable,
    NotCoordinator,
    ProducerFenced,
    RequestTimedOut,
)
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.init_producer_id import InitProducerIdRequest

FEATURE: Final = "transaction.version"
SECOND: Final = 2
# The newest versions that say nothing of the second version of transactions.
FIRST_PRODUCE, FIRST_END, FIRST_POSITIONS = 11, 4, 4

FENCED: Final = frozenset({int(Code.PRODUCER_FENCED), int(Code.INVALID_PRODUCER_EPOCH)})
_PASSING: Final = MOVING | {int(Code.CONCURRENT_TRANSACTIONS), int(Code.REQUEST_TIMED_OUT)}
_MISSING: Final = int(Code.UNKNOWN_TOPIC_OR_PARTITION)  # a broker may hear later of a topic than its client
_UNKNOWN: Final = (
    ConnectionFailed,
    RequestTimedOut,
    ConcurrentTransactions,
    CoordinatorLoading,
    CoordinatorUnavailable,
    NotCoordinator,
)


class TransactionCoordinator:
    def __init__(self, asking: Asking, transactional_id: str, timeout_s: float) -> None:
        self.is_second = False  # the broker has the second version
        self._asking, self._id, self._timeout_ms = asking, transactional_id, int(timeout_s * 1000)
        self._coordinator = Coordinator(asking, TRANSACTION, transactional_id)
        self._groups: dict[str, Coordinator] = {}

    async def init(self, before: Identity | None) -> Identity:
        """Who we are: whoever had the id is fenced, and what it left open is aborted. With an identity that we had
        `before` it is only raised, unless somebody else has the id now."""
        await self._learn_version()
        held = (before.id, before.epoch) if before is not None else (-1, -1)
        request = InitProducerIdRequest(self._id, self._timeout_ms, *held)
        answer = await self._coordinator.ask(INIT_PRODUCER_ID, request, lambda found: [found.error], _PASSING)
        self._check(answer.error)
        return Identity(answer.producer_id, answer.producer_epoch)

    async def add_partitions(self, who: Identity, partitions: Iterable[TopicPartition]) -> None:
        def fill(schema: Any) -> Any:
            topics = tuple(
                schema.AddPartitionsToTxnTopic(name=topic, partitions=tuple(indexes))
                for topic, indexes in by_topic(partitions).items()
            )
            return schema.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=who.id,
                v3_and_below_producer_epoch=who.epoch,
                v3_and_below_topics=topics,
            )

        def codes(answer: Any) -> list[int]:
            topics = answer.results_by_topic_v3_and_below
            return [one.partition_error_code.value for topic in topics for one in topic.results_by_partition]

        answer = await self._coordinator.ask(ADD_PARTITIONS_TO_TXN, fill, codes, _PASSING | {_MISSING})
        found = [code for code in codes(answer) if code != Code.OPERATION_NOT_ATTEMPTED]  # because of another
        self._check(next((code for code in found if code), 0))

    async def commit_positions(
        self, who: Identity, member: Membership, positions: Mapping[TopicPartition, Committed]
    ) -> None:
        """They count when the transaction is committed."""
        if not self.is_second:
            await self._add_group(who, member.group)
        group = self._groups.get(member.group)
        if group is None:
            group = self._groups[member.group] = Coordinator(self._asking, GROUP, member.group)

        def fill(schema: Any) -> Any:
            return schema.TxnOffsetCommitRequest(
                transactional_id=self._id,
                group_id=member.group,
                producer_id=who.id,
                producer_epoch=who.epoch,
                generation_id=member.generation,
                member_id=member.member_id,
                group_instance_id=member.instance,
                topics=put_positions(schema, "TxnOffsetCommitRequest", positions),
            )

        newest = None if self.is_second else FIRST_POSITIONS
        answer = await group.ask(TXN_OFFSET_COMMIT, fill, partition_codes, _PASSING, newest)
        self._check(next((code for code in partition_codes(answer) if code), 0), f"group {member.group!r}")

    async def end(self, who: Identity, commit: bool, limit_s: float) -> Identity:
        """Asked until the outcome is known, or the time is over. Who we are afterwards."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s

        def fill(schema: Any) -> Any:
            return schema.EndTxnRequest(
                transactional_id=self._id, producer_id=who.id, producer_epoch=who.epoch, committed=commit
            )

        newest = None if self.is_second else FIRST_END
        while True:
            try:
                answer = await self._coordinator.ask(END_TXN, fill, _code, _PASSING, newest)
                break
            except _UNKNOWN as error:
                if loop.time() >= deadline:
                    ended, verb = ("committed", "commit") if commit else ("aborted", "abort")
                    raise RequestTimedOut(
                        f"transactional id {self._id!r}: whether the transaction was {ended} is not known after"
                        f" {limit_s:g} s; {verb} again to find out ({error})"
                    ) from error
        self._check(answer.error_code.value)
        if not self.is_second:
            return who
        return Identity(int(answer.producer_id), int(answer.producer_epoch))

    def _check(self, code: int, what: str | None = None) -> None:
        what = what or f"transactional id {self._id!r}"
        if code in FENCED:
            raise ProducerFenced(
                f"{what}: another producer has begun with the same id, or the transaction took too long"
            )
        if code:
            raise error_of(code, what)

    async def _add_group(self, who: Identity, group: str) -> None:
        def fill(schema: Any) -> Any:
            return schema.AddOffsetsToTxnRequest(
                transactional_id=self._id, producer_id=who.id, producer_epoch=who.epoch, group_id=group
            )

        answer = await self._coordinator.ask(ADD_OFFSETS_TO_TXN, fill, _code, _PASSING)
        self._check(answer.error_code.value)

    async def _learn_version(self) -> None:
        levels: dict[str, int] = {}
        try:
            connection = await self._coordinator.connection()
            spoken = connection.versions.get(API_VERSIONS.key)
            if spoken is not None and spoken.max >= LEVELS.oldest:
                levels = await connection.ask(LEVELS, SOFTWARE, self._asking.timeout)
        except (ConnectionFailed, RequestTimedOut):
            pass  # `init` asks until it is there; the first version is understood by all
        self.is_second = levels.get(FEATURE, 0) >= SECOND


def _code(answer: Any) -> list[int]:
    return [answer.error_code.value]
