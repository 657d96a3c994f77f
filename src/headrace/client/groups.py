"""Administration of groups: who is in them, where they stand, moving and deleting them.

A group's positions belong to its members while there are any: only a group without members is moved or deleted, and
the broker holds to that (GroupNotEmpty).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.client.apis import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
)
from headrace.client.coordinators import GROUP, MOVING, Coordinated
from headrace.client.group_values import Committed, Group, GroupListing, GroupMember
from headrace.client.memberships import given_partitions, wanted_topics
from headrace.client.record_times import record_times
from headrace.client.refusals import error_of
from headrace.client.values import TopicPartition
from headrace.errors import GroupNotEmpty, GroupNotFound
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code

NO_GENERATION: Final = -1
DEAD: Final = "Dead"
CLASSIC, CONSUMER = "classic", "consumer"

Where = tuple[str, int]


class Groups(Coordinated):
    """The part of Admin that is about groups."""

    async def list_groups(self) -> list[GroupListing]:
        """Of all nodes, by name."""
        found: dict[str, GroupListing] = {}
        for node in (await self._asking.metadata.cluster_now()).nodes:
            answer = await self._coordinators.ask_node(
                node.id, LIST_GROUPS, lambda schema: schema.ListGroupsRequest(), lambda found: found.error_code.value
            )
            _check(answer.error_code.value, f"the groups of node {node.id}")
            for one in answer.groups:
                found[one.group_id] = GroupListing(
                    str(one.group_id),
                    getattr(one, "group_state", ""),
                    getattr(one, "group_type", "").lower(),
                    one.protocol_type,
                    node.id,
                )
        return [found[name] for name in sorted(found)]

    async def describe_groups(self, names: Iterable[str]) -> list[Group]:
        """In the order of the names; GroupNotFound when there is none."""
        return [await self._described_group(name) for name in names]

    async def group_offsets(self, name: str, stable: bool = False) -> dict[TopicPartition, Committed]:
        """Where the group stands, in every partition that it ever committed; nothing for a group that there is not.

        `stable` waits for open transactions that would move it, UnstablePosition when they do not end in time.
        """

        def fill(schema: Any) -> Any:
            return messages.build(schema.OffsetFetchRequest, group_id=name, topics=None, require_stable=stable)

        def codes(answer: Any) -> list[int]:
            each = [one.error_code.value for topic in answer.topics for one in topic.partitions]
            return [answer.error_code.value, *each]

        passing = MOVING | {int(Code.UNSTABLE_OFFSET_COMMIT)}
        _, answer = await self._coordinators.ask(GROUP, name, OFFSET_FETCH, fill, codes, passing=passing)
        if answer.error_code.value == Code.GROUP_ID_NOT_FOUND:
            return {}
        _check(answer.error_code.value, f"group {name!r}")
        found = {}
        for topic in answer.topics:
            for one in topic.partitions:
                _check(one.error_code.value, f"group {name!r}, {topic.name!r} partition {one.partition_index}")
                if one.committed_offset >= 0:
                    epoch = int(getattr(one, "committed_leader_epoch", -1))
                    where = TopicPartition(str(topic.name), int(one.partition_index))
                    found[where] = Committed(int(one.committed_offset), epoch, one.metadata or "")
        return dict(sorted(found.items()))

    async def alter_group_offsets(self, name: str, offsets: Mapping[Where, int | Committed]) -> None:
        """Moves a group that has no members; one that there is not is made."""
        by_topic: dict[str, dict[int, Committed]] = {}
        for (topic, partition), given in offsets.items():
            committed = given if isinstance(given, Committed) else Committed(given)
            by_topic.setdefault(topic, {})[partition] = committed

        def fill(schema: Any) -> Any:
            topics = tuple(
                schema.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=tuple(
                        messages.build(
                            schema.OffsetCommitRequestPartition,
                            partition_index=partition,
                            committed_offset=committed.offset,
                            committed_leader_epoch=committed.leader_epoch,
                            committed_metadata=committed.metadata,
                        )
                        for partition, committed in partitions.items()
                    ),
                )
                for topic, partitions in by_topic.items()
            )
            return messages.build(
                schema.OffsetCommitRequest,
                group_id=name,
                generation_id_or_member_epoch=NO_GENERATION,
                member_id="",
                topics=topics,
            )

        # Setting a position twice is setting it once, so a lost answer is no reason to give up.
        _, answer = await self._coordinators.ask(GROUP, name, OFFSET_COMMIT, fill, _partition_codes)
        for topic in answer.topics:
            for one in topic.partitions:
                code = one.error_code.value
                if code == Code.UNKNOWN_MEMBER_ID:
                    raise GroupNotEmpty(f"group {name!r} has members; stop them first")
                _check(code, f"group {name!r}, {topic.name!r} partition {one.partition_index}")

    async def delete_group(self, name: str) -> None:
        """With all its positions. A group with members stays (GroupNotEmpty)."""

        def fill(schema: Any) -> Any:
            return schema.DeleteGroupsRequest(groups_names=(name,))

        def codes(answer: Any) -> list[int]:
            return [one.error_code.value for one in answer.results]

        _, answer = await self._coordinators.ask(GROUP, name, DELETE_GROUPS, fill, codes, changes=True)
        for one in answer.results:
            _check(one.error_code.value, f"group {name!r}")

    async def delete_group_offsets(self, name: str, partitions: Iterable[Where]) -> None:
        """The group forgets where it stood there. Topics that its members read now stay (GroupSubscribed)."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)

        def fill(schema: Any) -> Any:
            topics = tuple(
                schema.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=tuple(schema.OffsetDeleteRequestPartition(partition_index=index) for index in indexes),
                )
                for topic, indexes in by_topic.items()
            )
            return schema.OffsetDeleteRequest(group_id=name, topics=topics)

        def codes(answer: Any) -> list[int]:
            return [answer.error_code.value, *_partition_codes(answer)]

        _, answer = await self._coordinators.ask(GROUP, name, OFFSET_DELETE, fill, codes)
        _check(answer.error_code.value, f"group {name!r}")
        for found in answer.topics:
            for one in found.partitions:
                _check(one.error_code.value, f"group {name!r}, {found.name!r} partition {one.partition_index}")

    async def record_times(self, offsets: Mapping[Where, int]) -> dict[TopicPartition, int]:
        """The times (in milliseconds) of the first record at or after an offset of each partition, where there is
        one: how long ago that was is how far behind, in time, a reader is that stands there."""
        return await record_times(self._asking, offsets)

    async def _described_group(self, name: str) -> Group:
        def fill(schema: Any) -> Any:
            return messages.build(schema.DescribeGroupsRequest, groups=(name,), include_authorized_operations=False)

        node_id, answer = await self._coordinators.ask(GROUP, name, DESCRIBE_GROUPS, fill, _group_codes)
        (found,) = answer.groups
        code = found.error_code.value
        if code == Code.GROUP_ID_NOT_FOUND or (not code and found.group_state == DEAD):
            return await self._described_anew(name)
        _check(code, f"group {name!r}", getattr(found, "error_message", None))
        members = tuple(
            GroupMember(
                one.member_id,
                getattr(one, "group_instance_id", None),
                one.client_id,
                one.client_host.removeprefix("/"),
                wanted_topics(one.member_metadata),
                given_partitions(one.member_assignment),
            )
            for one in found.members
        )
        protocol = found.protocol_data
        return Group(name, found.group_state, CLASSIC, found.protocol_type, protocol, node_id, _sorted(members))

    async def _described_anew(self, name: str) -> Group:
        """A group of Kafka's newer protocol, which the older question does not know."""
        unknown = GroupNotFound(f"there is no group {name!r}")
        node_id = await self._coordinators.find(GROUP, name)
        if CONSUMER_GROUP_DESCRIBE.key not in (await self._asking.to(node_id)).versions:
            raise unknown

        def fill(schema: Any) -> Any:
            return schema.ConsumerGroupDescribeRequest(group_ids=(name,), include_authorized_operations=False)

        node_id, answer = await self._coordinators.ask(GROUP, name, CONSUMER_GROUP_DESCRIBE, fill, _group_codes)
        (found,) = answer.groups
        if found.error_code.value == Code.GROUP_ID_NOT_FOUND:
            raise unknown
        _check(found.error_code.value, f"group {name!r}", found.error_message)
        members = tuple(
            GroupMember(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host.removeprefix("/"),
                tuple(sorted(one.subscribed_topic_names)),
                tuple(
                    TopicPartition(str(topic.topic_name), int(index))
                    for topic in one.assignment.topic_partitions
                    for index in topic.partitions
                ),
            )
            for one in found.members
        )
        return Group(name, found.group_state, CONSUMER, CONSUMER, found.assignor_name, node_id, _sorted(members))


def _sorted(members: tuple[GroupMember, ...]) -> tuple[GroupMember, ...]:
    return tuple(sorted(members, key=lambda one: (one.client_id, one.id)))


def _check(code: int, what: str, words: str | None = None) -> None:
    if code:
        raise error_of(code, what, words)


def _group_codes(answer: Any) -> list[int]:
    return [one.error_code.value for one in answer.groups]


def _partition_codes(answer: Any) -> list[int]:
    return [one.error_code.value for topic in answer.topics for one in topic.partitions]
