"""A group's positions as its members read and write them: OffsetFetch and OffsetCommit with the member's generation, so
that the coordinator can refuse who is not a member any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from headrace.client.apis import OFFSET_COMMIT, OFFSET_FETCH
from headrace.client.asking import Asking
from headrace.client.coordinators import GROUP, MOVING, Coordinator
from headrace.client.group_values import Committed
from headrace.client.memberships import by_topic
from headrace.client.refusals import error_of
from headrace.client.values import TopicPartition
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code

_UNSTABLE = int(Code.UNSTABLE_OFFSET_COMMIT)


class Membership(NamedTuple):
    """Who speaks for a group: a member, in a generation."""

    group: str
    generation: int
    member_id: str
    instance: str | None


class GroupPositions:
    def __init__(self, asking: Asking, group: str) -> None:
        self._asking, self._group = asking, group
        self._coordinator = Coordinator(asking, GROUP, group)

    async def fetch(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Where the group stands, of those partitions in which it stands anywhere. Transactions that would move it are
        waited for: to begin before they end would be to read twice."""

        def fill(schema: Any) -> Any:
            topics = tuple(
                schema.OffsetFetchRequestTopic(name=topic, partition_indexes=tuple(indexes))
                for topic, indexes in by_topic(partitions).items()
            )
            return messages.build(schema.OffsetFetchRequest, group_id=self._group, topics=topics, require_stable=True)

        def codes(answer: Any) -> list[int]:
            return [answer.error_code.value, *partition_codes(answer)]

        answer = await self._coordinator.ask(OFFSET_FETCH, fill, codes, MOVING | {_UNSTABLE})
        found = {}
        if answer.error_code.value:
            raise error_of(answer.error_code.value, f"group {self._group!r}")
        for topic in answer.topics:
            for one in topic.partitions:
                if one.error_code.value:
                    what = f"group {self._group!r}, {topic.name!r} partition {one.partition_index}"
                    raise error_of(one.error_code.value, what)
                if one.committed_offset >= 0:
                    epoch = int(getattr(one, "committed_leader_epoch", -1))
                    where = TopicPartition(str(topic.name), int(one.partition_index))
                    found[where] = Committed(int(one.committed_offset), epoch, one.metadata or "")
        return found

    async def commit(self, who: Membership, positions: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, int]:
        """The code of each; setting a position twice is setting it once, so it is asked again."""

        def fill(schema: Any) -> Any:
            return messages.build(
                schema.OffsetCommitRequest,
                group_id=self._group,
                generation_id_or_member_epoch=who.generation,
                member_id=who.member_id,
                group_instance_id=who.instance,
                topics=put_positions(schema, "OffsetCommitRequest", positions),
            )

        answer = await self._coordinator.ask(OFFSET_COMMIT, fill, partition_codes)
        return {
            TopicPartition(str(topic.name), int(one.partition_index)): one.error_code.value
            for topic in answer.topics
            for one in topic.partitions
        }

    def close(self) -> None:
        self._asking.connections.close()


def put_positions(schema: Any, name: str, positions: Mapping[TopicPartition, Committed]) -> tuple[Any, ...]:
    """As the two requests have them that write positions."""
    topic_of, partition_of = getattr(schema, f"{name}Topic"), getattr(schema, f"{name}Partition")
    return tuple(
        topic_of(
            name=topic,
            partitions=tuple(
                messages.build(
                    partition_of,
                    partition_index=index,
                    committed_offset=positions[TopicPartition(topic, index)].offset,
                    committed_leader_epoch=positions[TopicPartition(topic, index)].leader_epoch,
                    committed_metadata=positions[TopicPartition(topic, index)].metadata,
                )
                for index in indexes
            ),
        )
        for topic, indexes in by_topic(positions).items()
    )


def partition_codes(answer: Any) -> list[int]:
    return [one.error_code.value for topic in answer.topics for one in topic.partitions]
