"""Administration: what there is, and how it is changed. Values in, values out; refusals are errors of ours."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.client import backoff
from headrace.client.apis import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_QUORUM,
)
from headrace.client.asking import Asking, checked_partition
from headrace.client.connection import Connection
from headrace.client.groups import Groups
from headrace.client.positions import timestamp_of
from headrace.client.refusals import MISDIRECTED, error_of
from headrace.client.settings import Settings
from headrace.client.sinks import Sinks
from headrace.client.transactions import Transactions
from headrace.client.values import (
    ApiRange,
    Cluster,
    LogDir,
    LogSize,
    OffsetAt,
    Quorum,
    QuorumMember,
    Setting,
    Time,
    Topic,
)
from headrace.errors import InvalidPartitions, InvalidReplication, RequestTimedOut
from headrace.wire.kafka.codes_client import name_of

METADATA_TOPIC: Final = "__cluster_metadata"
MAX_PARTITIONS: Final = (1 << 31) - 1  # that a request can name
MAX_REPLICATION: Final = (1 << 15) - 1


class Admin(Groups, Transactions, Sinks):
    def __init__(self, asking: Asking) -> None:
        super().__init__(asking)
        self._metadata = asking.metadata
        self._settings = Settings(asking)

    # The cluster

    async def cluster(self) -> Cluster:
        return await self._metadata.cluster_now()

    async def api_versions(self, node_id: int | None = None) -> dict[int, ApiRange]:
        """By api key, the versions that a node takes."""
        if node_id is None:
            connection = await self._asking.connections.any(self._metadata.nodes)
        else:
            connection = await self._asking.to(node_id)
        return dict(connection.versions)

    async def quorum(self) -> Quorum:
        def fill(schema: Any) -> Any:
            partition = schema.PartitionData(partition_index=0)
            return schema.DescribeQuorumRequest(
                topics=(schema.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),)
            )

        answer = await self._asking.any(DESCRIBE_QUORUM, fill)
        _check(answer.error_code.value, "the quorum", getattr(answer, "error_message", None))
        (topic,) = answer.topics
        (state,) = topic.partitions
        _check(state.error_code.value, "the quorum", getattr(state, "error_message", None))
        return Quorum(
            state.leader_id,
            state.leader_epoch,
            state.high_watermark,
            tuple(_member(one) for one in state.current_voters),
            tuple(_member(one) for one in state.observers),
        )

    async def log_dirs(self) -> list[LogDir]:
        """Of every node, where it keeps its logs and how large they are."""
        found = []
        for node in (await self.cluster()).nodes:
            answer = await self._asking.node(
                node.id, DESCRIBE_LOG_DIRS, lambda schema: schema.DescribeLogDirsRequest(topics=None)
            )
            error = getattr(answer, "error_code", None)
            _check(error.value if error is not None else 0, f"the log folders of node {node.id}")
            found += [_log_dir(node.id, one) for one in answer.results]
        return found

    # Topics

    async def topics(self, internal: bool = False) -> list[Topic]:
        found = await self._metadata.all()
        return sorted((topic for topic in found if internal or not topic.internal), key=lambda topic: topic.name)

    async def topic(self, name: str) -> Topic:
        """UnknownTopic when there is none."""
        self._metadata.forget(name)
        return await self._metadata.topic(name)

    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication: int = -1,
        config: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> Topic:
        """-1 is the broker's own default. Returns when the topic can be used; with `validate_only` nothing is made."""
        _check_count(partitions)
        if not -1 <= replication <= MAX_REPLICATION:
            raise InvalidReplication(f"topic {name!r}: {replication} is no number of replicas")

        def fill(schema: Any) -> Any:
            settings = tuple(
                schema.CreatableTopicConfig(name=key, value=None if value is None else str(value))
                for key, value in (config or {}).items()
            )
            topic = schema.CreatableTopic(
                name=name, num_partitions=partitions, replication_factor=replication, assignments=(), configs=settings
            )
            return schema.CreateTopicsRequest(
                topics=(topic,), timeout=self._broker_timeout, validate_only=validate_only
            )

        answer = await self._asking.controller(CREATE_TOPICS, fill, _topic_codes)
        (result,) = answer.topics
        _check(result.error_code.value, f"topic {name!r}", result.error_message)
        if validate_only:
            return Topic(name, None, False, ())
        self._metadata.forget(name)
        return await self._metadata.topic(name, grace_s=self._asking.timeout)

    async def delete_topic(self, name: str) -> None:
        """Returns when the topic is gone from the metadata."""

        def fill(schema: Any) -> Any:
            return schema.DeleteTopicsRequest(topic_names=(name,), timeout=self._broker_timeout)

        answer = await self._asking.controller(DELETE_TOPICS, fill, _response_codes)
        (result,) = answer.responses
        _check(result.error_code.value, f"topic {name!r}", getattr(result, "error_message", None))
        await self._until(f"topic {name!r} was deleted and is still there", lambda: self._is_gone(name))

    async def add_partitions(self, name: str, total: int, validate_only: bool = False) -> None:
        """Up to `total` partitions. Keys that are hashed go elsewhere from then on."""
        _check_count(total)

        def fill(schema: Any) -> Any:
            topic = schema.CreatePartitionsTopic(name=name, count=total, assignments=None)
            return schema.CreatePartitionsRequest(
                topics=(topic,), timeout=self._broker_timeout, validate_only=validate_only
            )

        answer = await self._asking.controller(CREATE_PARTITIONS, fill, _result_codes)
        (result,) = answer.results
        _check(result.error_code.value, f"topic {name!r}", result.error_message)
        if not validate_only:
            await self._until(f"topic {name!r} does not show its {total} partitions", lambda: self._has(name, total))

    # Settings

    async def config(self, kind: str, name: str) -> list[Setting]:
        """`kind` is topic, broker (its name the node's id) or cluster (the default of all brokers, no name)."""
        return await self._settings.describe(kind, name)

    async def alter_config(
        self,
        kind: str,
        name: str,
        set: Mapping[str, str] | None = None,  # noqa: A002 (it reads as what it does)
        delete: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        await self._settings.alter(kind, name, set or {}, delete, append or {}, subtract or {}, validate_only)

    # Offsets

    async def offsets(
        self, topic: str, at: str | int | datetime.datetime | Time, isolation: str = "read_uncommitted"
    ) -> dict[int, OffsetAt]:
        """Of each partition: "start", "end", "latest-time" (the record with the greatest time), or the first record
        of a time (milliseconds, or a datetime) or later, offset -1 when there is none."""
        count = len((await self._metadata.topic(topic)).partitions)
        level = 1 if isolation == "read_committed" else 0
        return await self._asking.offsets(topic, dict.fromkeys(range(count), timestamp_of(at)), level)

    async def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Deletes what is before an offset in each partition (-1: everything); gives where each log begins then."""
        count = len((await self._metadata.topic(topic)).partitions)
        for partition in before:
            checked_partition(count, topic, partition)

        async def ask(connection: Connection, asked: dict[int, int]) -> dict[int, int]:
            def fill(schema: Any) -> Any:
                partitions = tuple(
                    schema.DeleteRecordsPartition(partition_index=index, offset=offset)
                    for index, offset in asked.items()
                )
                topics = (schema.DeleteRecordsTopic(name=topic, partitions=partitions),)
                return schema.DeleteRecordsRequest(topics=topics, timeout=self._broker_timeout)

            answer = await connection.ask(DELETE_RECORDS, fill, self._asking.timeout)
            found = {}
            for result in (one for name in answer.topics for one in name.partitions):
                code = result.error_code.value
                if code not in MISDIRECTED:
                    _check(code, f"topic {topic!r} partition {result.partition_index}")
                    found[result.partition_index] = result.low_watermark
            return found

        return await self._asking.leaders(topic, before, ask)

    # What several need

    @property
    def _broker_timeout(self) -> datetime.timedelta:
        return datetime.timedelta(milliseconds=self._asking.broker_timeout_ms)

    async def _until(self, otherwise: str, is_so: Any) -> None:
        """The node that made a change and the one that tells of it may be two."""
        loop = asyncio.get_running_loop()
        deadline, looks = loop.time() + self._asking.timeout, 0
        while not await is_so():
            looks += 1
            if loop.time() > deadline:
                raise RequestTimedOut(f"{otherwise} after {self._asking.timeout:g} s")
            await asyncio.sleep(backoff.wait_s(looks, 0.01))

    async def _is_gone(self, name: str) -> bool:
        self._metadata.forget(name)
        await self._metadata.refresh([name])
        return self._metadata.known(name) is None

    async def _has(self, name: str, total: int) -> bool:
        await self._metadata.refresh([name])
        topic = self._metadata.known(name)
        return topic is not None and len(topic.partitions) >= total


def _check_count(partitions: int) -> None:
    """What does not fit the request; all else is the broker's to judge."""
    if not -1 <= partitions <= MAX_PARTITIONS:
        raise InvalidPartitions(f"{partitions} is no number of partitions")


def _check(code: int, what: str, words: str | None = None) -> None:
    if code:
        raise error_of(code, what, words)


def _topic_codes(answer: Any) -> list[int]:
    return [result.error_code.value for result in answer.topics]


def _response_codes(answer: Any) -> list[int]:
    return [result.error_code.value for result in answer.responses]


def _result_codes(answer: Any) -> list[int]:
    return [result.error_code.value for result in answer.results]


def _member(state: Any) -> QuorumMember:
    fetched, caught_up = getattr(state, "last_fetch_timestamp", -1), getattr(state, "last_caught_up_timestamp", -1)
    return QuorumMember(int(state.replica_id), int(state.log_end_offset), int(fetched), int(caught_up))


def _log_dir(node_id: int, found: Any) -> LogDir:
    code = found.error_code.value
    sizes = tuple(
        LogSize(str(topic.name), int(one.partition_index), int(one.partition_size), int(one.offset_lag))
        for topic in found.topics
        for one in topic.partitions
    )
    total, usable = getattr(found, "total_bytes", -1), getattr(found, "usable_bytes", -1)
    return LogDir(node_id, found.log_dir, name_of(code) if code else None, int(total), int(usable), sizes)
