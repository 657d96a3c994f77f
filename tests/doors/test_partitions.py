"""More partitions, and where they are: CreatePartitions, DescribeTopicPartitions, the directories, elections and
reassignments of a lone node."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from headrace.doors.kafka.api.describe_topic_partitions import MAX_PARTITIONS
from headrace.doors.kafka.names import to_kafka
from headrace.records import codec
from headrace.records.codec import BatchOptions, Producer
from headrace.wire.kafka import header, metadata, produce_client
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.metadata import AskedTopic, MetadataRequest
from tests.doors.asking import Asker, create, record

SECOND = datetime.timedelta(seconds=1)


# CreatePartitions


async def more(asker: Asker, *topics: Any, version: int = 3, trial: bool = False) -> dict[str, int]:
    """Each topic is (name, count, assignments)."""
    fields = {
        "topics": [
            {
                "name": name,
                "count": count,
                "assignments": None if nodes is None else [{"broker_ids": one} for one in nodes],
            }
            for name, count, nodes in topics
        ],
        "timeout": SECOND,
        "validate_only": trial,
    }
    answer = await asker.ask_by_schema(header.CREATE_PARTITIONS, version, fields)
    return {one.name: one.error_code for one in answer.results}


async def partitions(asker: Asker, name: str) -> int:
    _, (topic,) = await asker.ask(metadata, header.METADATA, 12, MetadataRequest([AskedTopic(name, None)]))
    return len(topic.partitions)


@pytest.mark.parametrize("version", range(4))
async def test_clients_see_new_partitions_at_once_and_can_use_them(asker: Asker, version: int) -> None:
    await create(asker, "t")
    assert await partitions(asker, "t") == 1
    assert await more(asker, ("t", 3, None), version=version) == {"t": Code.NONE}
    assert await partitions(asker, "t") == 3
    assert (await asker.produce("t", 2, [record(1)])).error == Code.NONE
    assert await more(asker, ("t", 4, [[0]]), version=version) == {"t": Code.NONE}


@pytest.mark.parametrize(
    ("count", "nodes", "code"),
    [
        (2, None, Code.INVALID_PARTITIONS),
        (1, None, Code.INVALID_PARTITIONS),
        (-(2**31), None, Code.INVALID_PARTITIONS),
        (2**31 - 1, None, Code.INVALID_PARTITIONS),
        (2**31 - 1, [[0]], Code.INVALID_PARTITIONS),
        (4, [[0]], Code.INVALID_REPLICA_ASSIGNMENT),
        (4, [], Code.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1]], Code.INVALID_REPLICA_ASSIGNMENT),
        (3, [[0, 0]], Code.INVALID_REPLICA_ASSIGNMENT),
        (3, [[]], Code.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_a_wrong_number_or_assignment_of_partitions_is_refused(
    asker: Asker, count: int, nodes: Any, code: Code
) -> None:
    await create(asker, "t", partitions=2)
    assert await more(asker, ("t", count, nodes)) == {"t": code}
    assert await partitions(asker, "t") == 2


async def test_wishes_for_partitions_are_judged_one_by_one(asker: Asker) -> None:
    await create(asker, "t")
    await create(asker, "u")
    codes = await more(asker, ("t", 2, None), ("u", 2, None), ("t", 3, None), ("none", 2, None))
    assert codes == {"t": Code.INVALID_REQUEST, "u": Code.NONE, "none": Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert await more(asker, ("t", 2, None), trial=True) == {"t": Code.NONE}
    assert await partitions(asker, "t") == 1


# DescribeTopicPartitions


async def page(asker: Asker, names: list[str], limit: int, cursor: tuple[str, int] | None = None) -> Any:
    schema_cursor = None
    if cursor is not None:
        from kio.schema.describe_topic_partitions.v0.request import Cursor

        schema_cursor = Cursor(topic_name=cursor[0], partition_index=cursor[1])  # type: ignore[arg-type]
    fields = {
        "topics": [{"name": name} for name in names],
        "response_partition_limit": limit,
        "cursor": schema_cursor,
    }
    return await asker.ask_by_schema(header.DESCRIBE_TOPIC_PARTITIONS, 0, fields)


@pytest.mark.parametrize("limit", [-1, 0, 1, 2, 3, 100, 2**31 - 1])
async def test_topics_come_page_by_page_each_partition_once(asker: Asker, limit: int) -> None:
    for name, count in (("a", 3), ("b", 1), ("ü c", 2)):
        await create(asker, name, partitions=count)
    seen, cursor = [], None
    while True:
        answer = await page(asker, [], limit, cursor)
        shown = [(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions]
        assert len(shown) <= max(1, limit)
        seen += shown
        if answer.next_cursor is None:
            break
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    odd = to_kafka("ü c")
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), (odd, 0), (odd, 1)]


async def test_named_topics_are_described_and_those_that_are_not_there_say_so(asker: Asker) -> None:
    topic = await create(asker, "t")
    answer = await page(asker, ["t", "none", "bad name!", "t"], 10)
    assert [(one.name, one.error_code) for one in answer.topics] == [
        ("bad name!", Code.INVALID_TOPIC_EXCEPTION),
        ("none", Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", Code.NONE),
    ]
    assert answer.topics[2].topic_id == topic.id
    (partition,) = answer.topics[2].partitions
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (0, (0,), (0,))


async def test_a_cursor_that_points_nowhere_is_no_trouble(asker: Asker) -> None:
    await create(asker, "t", partitions=2)
    assert (await page(asker, ["t"], 10, ("t", -1))).topics[0].error_code == Code.INVALID_REQUEST
    assert (await page(asker, ["t"], 10, ("t", 99))).topics[0].partitions == ()
    assert (await page(asker, ["t"], 10, ("zzz", 0))).topics == ()
    assert len((await page(asker, ["t"], 10, ("a", 1))).topics[0].partitions) == 2


async def test_a_page_has_a_limit_whatever_is_asked_for(asker: Asker) -> None:
    await create(asker, "t", partitions=MAX_PARTITIONS + 1)
    answer = await page(asker, [], 2**31 - 1)
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("t", MAX_PARTITIONS)


# Directories


async def log_dirs(asker: Asker, topics: list[Any] | None, version: int = 5) -> Any:
    answer = await asker.ask_by_schema(header.DESCRIBE_LOG_DIRS, version, {"topics": topics})
    (result,) = answer.results
    return result


@pytest.mark.parametrize("version", range(1, 6))
async def test_the_directory_tells_what_each_partition_takes(asker: Asker, version: int) -> None:
    await create(asker, "t", partitions=2)
    await create(asker, "m", configs={"headrace.storage": "memory"})
    await asker.produce("t", 1, [record(1)])
    result = await log_dirs(asker, None, version)
    assert result.log_dir == asker.node.store.path
    assert {topic.name: len(topic.partitions) for topic in result.topics} == {"t": 2}
    sizes = {one.partition_index: one.partition_size for one in result.topics[0].partitions}
    assert sizes[0] == 0 < sizes[1]


async def test_a_log_that_nobody_opened_has_its_size_too(asker: Asker) -> None:
    await create(asker, "t")
    await asker.produce("t", 0, [record(1)])
    (opened,) = (await log_dirs(asker, None)).topics[0].partitions
    asker.node.broker.topics()[0].partitions[0].recover()
    (closed,) = (await log_dirs(asker, None)).topics[0].partitions
    assert closed.partition_size == opened.partition_size > 0


async def test_only_partitions_that_are_there_and_asked_for_are_in_the_directory(asker: Asker) -> None:
    await create(asker, "t", partitions=3)
    asked = [{"topic": "t", "partitions": [2, 2, 7, -1]}, {"topic": "none", "partitions": [0]}]
    (topic,) = (await log_dirs(asker, asked)).topics
    assert [one.partition_index for one in topic.partitions] == [2]
    assert (await log_dirs(asker, [])).topics == ()


@pytest.mark.parametrize("version", [1, 2])
async def test_a_node_has_one_directory_and_partitions_stay_in_it(asker: Asker, version: int) -> None:
    await create(asker, "t")
    here = asker.node.store.path
    dirs = [
        {"path": here, "topics": [{"name": "t", "partitions": [0, 5]}, {"name": "none", "partitions": [0]}]},
        {"path": here + "/other", "topics": [{"name": "t", "partitions": [0]}]},
    ]
    answer = await asker.ask_by_schema(header.ALTER_REPLICA_LOG_DIRS, version, {"dirs": dirs})
    found = {one.topic_name: [(p.partition_index, p.error_code) for p in one.partitions] for one in answer.results}
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert found == {"t": [(0, Code.NONE), (5, unknown), (0, Code.LOG_DIR_NOT_FOUND)], "none": [(0, unknown)]}


# Leaders and replicas


@pytest.mark.parametrize("version", range(3))
async def test_no_election_is_needed_on_a_lone_node(asker: Asker, version: int) -> None:
    await create(asker, "t")
    fields: dict[str, Any] = {"topic_partitions": [{"topic": "t", "partitions": [0, 4]}], "timeout": SECOND}
    if version >= 1:
        fields["election_type"] = 0
    answer = await asker.ask_by_schema(header.ELECT_LEADERS, version, fields)
    (topic,) = answer.replica_election_results
    codes = [(one.partition_id, one.error_code) for one in topic.partition_result]
    assert codes == [(0, Code.ELECTION_NOT_NEEDED), (4, Code.UNKNOWN_TOPIC_OR_PARTITION)]
    fields["topic_partitions"] = None
    assert (await asker.ask_by_schema(header.ELECT_LEADERS, version, fields)).replica_election_results == ()


async def test_an_unknown_kind_of_election_is_refused(asker: Asker) -> None:
    fields = {"election_type": 2, "topic_partitions": None, "timeout": SECOND}
    assert (await asker.ask_by_schema(header.ELECT_LEADERS, 2, fields)).error_code == Code.INVALID_REQUEST


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("name", "index", "replicas", "code"),
    [
        ("t", 0, (0,), Code.NONE),
        ("t", 0, None, Code.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 0, (1,), Code.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, (0, 1), Code.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, (0, 0), Code.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, (), Code.INVALID_REPLICA_ASSIGNMENT),
        ("t", 1, (0,), Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("none", 0, None, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_partitions_can_be_reassigned_to_where_they_are(
    asker: Asker, version: int, name: str, index: int, replicas: Any, code: Code
) -> None:
    await create(asker, "t")
    fields: dict[str, Any] = {
        "timeout": SECOND,
        "topics": [{"name": name, "partitions": [{"partition_index": index, "replicas": replicas}]}],
    }
    if version >= 1:
        fields["allow_replication_factor_change"] = True
    answer = await asker.ask_by_schema(header.ALTER_PARTITION_REASSIGNMENTS, version, fields)
    assert answer.error_code == Code.NONE
    assert answer.responses[0].partitions[0].error_code == code


async def test_nothing_is_ever_on_its_way(asker: Asker) -> None:
    await create(asker, "t")
    for topics in (None, [{"name": "t", "partition_indexes": [0]}, {"name": "none", "partition_indexes": []}]):
        fields = {"timeout": SECOND, "topics": topics}
        answer = await asker.ask_by_schema(header.LIST_PARTITION_REASSIGNMENTS, 0, fields)
        assert (answer.error_code, answer.topics) == (Code.NONE, ())


# Producers


async def test_idempotent_producers_are_told_with_what_they_wrote_last(asker: Asker) -> None:
    await create(asker, "t", partitions=2)
    batch = codec.encode([record(1), record(2)], BatchOptions(producer=Producer(5, 1, 0)))
    pieces = produce_client.encode_request(7, 13, None, None, 1, 5000, [("t", None, [(0, batch)])])
    await asker.answer(b"".join(pieces))
    topics = [{"name": "t", "partition_indexes": [0, 1, 2, 0]}, {"name": "none", "partition_indexes": [0]}]
    answer = await asker.ask_by_schema(header.DESCRIBE_PRODUCERS, 0, {"topics": topics})
    first, second, third = answer.topics[0].partitions
    (producer,) = first.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (5, 1, 1)
    assert (second.error_code, second.active_producers) == (Code.NONE, ())
    assert third.error_code == answer.topics[1].partitions[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
