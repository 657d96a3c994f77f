"""The Kafka APIs besides Produce and Fetch, asked over a socket of a real node."""

from __future__ import annotations

import datetime
import uuid
from pathlib import Path
from typing import Any

import pytest

from headrace.doors.kafka import registry
from headrace.doors.kafka.names import to_kafka
from headrace.wire.kafka import (
    api_versions,
    fetch_client,
    header,
    init_producer_id,
    list_offsets,
    metadata,
    produce_client,
)
from headrace.wire.kafka.errors import MAX_MESSAGE_CHARS, Code
from headrace.wire.kafka.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.kafka.list_offsets import AskedOffset, ListOffsetsRequest
from headrace.wire.kafka.metadata import AskedTopic, ClusterState, MetadataRequest, TopicState
from headrace.wire.kafka.primitives import MAX_STRING_BYTES
from tests.doors.asking import Asker, asking, create, record

SECOND = datetime.timedelta(seconds=1)
PATIENCE_S = 10.0  # far more than any answer needs; the machine may be busy


# ApiVersions


@pytest.mark.parametrize("version", range(5))
async def test_api_versions_names_every_api_with_its_range(asker: Asker, version: int) -> None:
    request = api_versions.ApiVersionsRequest("asker", "1.0")
    answer = await asker.ask(api_versions, header.API_VERSIONS, version, request)
    assert answer.error == 0
    assert {api.key: api[1:] for api in answer.ranges} == {k: a.advertised for k, a in registry.apis().items()}


@pytest.mark.parametrize("version", [5, 32767])
async def test_an_unknown_version_of_api_versions_is_told_the_range_in_version_0(asker: Asker, version: int) -> None:
    raw = await asker.answer(header.question(header.API_VERSIONS, version, 9, "x", b"anything"))
    assert raw[:4] == b"\0\0\0\x09"
    answer = api_versions.decode_response(raw, 4, len(raw), 0)
    assert answer == (Code.UNSUPPORTED_VERSION, [(header.API_VERSIONS, 0, 4)], 0)
    again = await asker.ask(api_versions, header.API_VERSIONS, 0, api_versions.ApiVersionsRequest())
    assert again.error == 0


async def test_a_client_that_does_not_name_itself_properly_is_refused(asker: Asker) -> None:
    request = api_versions.ApiVersionsRequest("bad name!", "1")
    assert (await asker.ask(api_versions, header.API_VERSIONS, 3, request)).error == Code.INVALID_REQUEST


@pytest.mark.parametrize(("key", "version"), [(999, 0), (header.METADATA, 99), (header.PRODUCE, 2), (22, 6)])
async def test_an_unknown_api_or_version_closes_the_connection(asker: Asker, key: int, version: int) -> None:
    assert await asker.answer(header.question(key, version, 1, None, b"\0" * 20)) == b""


@pytest.mark.parametrize("key", sorted(registry.apis()))
async def test_a_body_that_does_not_parse_closes_the_connection(asker: Asker, key: int) -> None:
    version = registry.apis()[key].versions[-1]
    assert await asker.answer(header.question(key, version, 1, None, b"\xff" * 9)) == b""


# Metadata


async def _metadata(asker: Asker, version: int, *names: str, **more: Any) -> tuple[ClusterState, list[TopicState]]:
    request = MetadataRequest([AskedTopic(name, None) for name in names], **more)
    answer: tuple[ClusterState, list[TopicState]] = await asker.ask(metadata, header.METADATA, version, request)
    return answer


@pytest.mark.parametrize("version", range(14))
async def test_a_topic_that_is_missing_is_created_and_told_at_once(asker: Asker, version: int) -> None:
    cluster, (topic,) = await _metadata(asker, version, "new")
    assert (topic.error, topic.name, len(topic.partitions)) == (0, "new", 1)
    address = asker.node.addresses["kafka"]
    assert [tuple(node[:3]) for node in cluster.nodes] == [(0, address.host, address.port)]
    (partition,) = topic.partitions
    assert (partition.leader, partition.replicas, partition.isr, partition.offline) == (0, [0], [0], [])
    if version >= 10:
        assert topic.topic_id == asker.node.broker.topic("new").id  # type: ignore[union-attr]


async def test_no_topic_is_created_when_the_client_does_not_want_it(asker: Asker) -> None:
    _, (topic,) = await _metadata(asker, 13, "new", allow_auto_create=False)
    assert topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert asker.node.broker.topics() == []


async def test_no_topic_is_created_when_the_node_does_not_want_it(tmp_path: Path) -> None:
    async with asking(tmp_path, auto_create_topics=False) as asker:
        _, (topic,) = await _metadata(asker, 13, "new")
        assert topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["", "a b", "..", "x" * 250, "headrace-b32-1"])
async def test_a_name_that_no_topic_can_have_is_refused(asker: Asker, name: str) -> None:
    for wanted in (True, False):
        _, (topic,) = await _metadata(asker, 13, name, allow_auto_create=wanted)
        assert (topic.error, topic.name) == (Code.INVALID_TOPIC_EXCEPTION, name)


async def test_null_is_all_topics_and_empty_is_none_but_in_version_0(asker: Asker) -> None:
    await create(asker, "a")
    await create(asker, "b")
    for version, asked, expected in ((1, None, 2), (1, (), 0), (0, (), 2), (13, None, 2), (13, (), 0)):
        _, topics = await asker.ask(metadata, header.METADATA, version, MetadataRequest(asked))
        assert len(topics) == expected


async def test_a_topic_asked_for_twice_is_told_once(asker: Asker) -> None:
    _, topics = await _metadata(asker, 13, "a", "a", "b")
    assert [topic.name for topic in topics] == ["a", "b"]


async def test_topics_are_found_by_their_id(asker: Asker) -> None:
    topic = await create(asker, "a")
    strange = uuid.UUID(int=7)
    request = MetadataRequest([AskedTopic(None, topic.id), AskedTopic(None, strange)])
    _, (known, unknown) = await asker.ask(metadata, header.METADATA, 13, request)
    assert (known.name, known.error) == ("a", 0)
    assert (unknown.name, unknown.topic_id, unknown.error) == (None, strange, Code.UNKNOWN_TOPIC_ID)


async def test_a_change_of_topics_is_seen_at_once(asker: Asker) -> None:
    first = await create(asker, "a")
    _, (seen,) = await _metadata(asker, 13, "a")
    assert seen.topic_id == first.id
    await asker.node.broker.delete_topics(["a"])
    second = await create(asker, "a", partitions=3)
    _, (seen,) = await _metadata(asker, 13, "a")
    assert seen.topic_id == second.id != first.id
    assert len(seen.partitions) == 3


async def test_authorised_operations_are_told_only_to_who_asks(asker: Asker) -> None:
    cluster, (topic,) = await _metadata(asker, 10, "a")
    assert cluster.operations == topic.operations == metadata.NOT_ASKED
    cluster, (topic,) = await _metadata(asker, 10, "a", cluster_operations=True, topic_operations=True)
    assert (cluster.operations, topic.operations) == (8096, 3576)  # Kafka's numbers without an authorizer


async def test_a_name_that_kafka_cannot_spell_is_told_by_its_other_name_and_found_by_it(asker: Asker) -> None:
    await create(asker, "übung")
    _, topics = await asker.ask(metadata, header.METADATA, 12, MetadataRequest(None))
    assert [topic.name for topic in topics] == [to_kafka("übung")]
    _, (topic,) = await _metadata(asker, 12, to_kafka("übung"))
    assert topic.error == 0
    assert len(asker.node.broker.topics()) == 1


# Names that no topic can have


@pytest.mark.parametrize("size", [250, MAX_STRING_BYTES])
async def test_a_name_that_is_too_long_is_unknown_or_invalid_as_kafka_has_it(asker: Asker, size: int) -> None:
    name = "n" * size
    answer = await asker.ask(
        list_offsets, header.LIST_OFFSETS, 6, ListOffsetsRequest([(name, [AskedOffset(0, -1, -1)])])
    )
    assert answer.topics[0][1][0].error == Code.UNKNOWN_TOPIC_OR_PARTITION
    _, (topic,) = await _metadata(asker, 9, name)
    assert (topic.name, topic.error) == (name, Code.INVALID_TOPIC_EXCEPTION)
    (created,) = await _create_topics(asker, 7, _new(name))
    assert created.error_code.value == Code.INVALID_TOPIC_EXCEPTION
    assert len(created.error_message) <= MAX_MESSAGE_CHARS
    fetched = await asker.ask(
        fetch_client,
        header.FETCH,
        12,
        FetchRequest(topics=[FetchTopic(name, None, [FetchPartition(0, -1, 0, -1, -1, 100)])]),
    )
    assert fetched.topics[0].partitions[0].error == Code.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [8, 9])
async def test_a_long_name_is_not_repeated_for_every_partition_that_is_refused(asker: Asker, version: int) -> None:
    topics = [("n" * MAX_STRING_BYTES, None, [(partition, None) for partition in range(1000)])]
    raw = await asker.answer(b"".join(produce_client.encode_request(version, 13, None, None, 1, 1000, topics)))
    at = header.read_response_header(raw, 0, len(raw), header.PRODUCE, version)[1]
    results = produce_client.decode_response(raw, at, len(raw), version).topics[0].partitions
    assert {one.error for one in results} == {Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(results) == 1000
    assert all(0 < len(one.message or "") <= MAX_MESSAGE_CHARS for one in results)


@pytest.mark.parametrize("is_there", [True, False])
async def test_by_id_a_partition_that_is_missing_has_another_code_than_its_topic(asker: Asker, is_there: bool) -> None:
    topic_id = (await create(asker, "t")).id if is_there else uuid.UUID(int=9)
    meant = Code.UNKNOWN_TOPIC_OR_PARTITION if is_there else Code.UNKNOWN_TOPIC_ID
    pieces = produce_client.encode_request(13, 13, None, None, 1, 1000, [(None, topic_id, [(9, None)])])
    raw = await asker.answer(b"".join(pieces))
    at = header.read_response_header(raw, 0, len(raw), header.PRODUCE, 13)[1]
    assert produce_client.decode_response(raw, at, len(raw), 13).topics[0].partitions[0].error == meant
    asked = FetchTopic(None, topic_id, [FetchPartition(9, -1, 0, -1, -1, 100)])
    raw = await asker.answer(fetch_client.encode_request(13, 5, None, FetchRequest(topics=[asked])))
    at = header.read_response_header(raw, 0, len(raw), header.FETCH, 13)[1]
    assert fetch_client.decode_response(raw, at, len(raw), 13).topics[0].partitions[0].error == meant


# CreateTopics


def _new(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    new = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [],
        "configs": [],
    }
    return new | more


async def _create_topics(asker: Asker, version: int, *topics: Any, validate_only: bool = False) -> list[Any]:
    fields = {"topics": list(topics), "timeout": SECOND, "validate_only": validate_only}
    return list((await asker.ask_by_schema(header.CREATE_TOPICS, version, fields)).topics)


@pytest.mark.parametrize("version", range(2, 8))
async def test_topics_are_created_as_asked_for(asker: Asker, version: int) -> None:
    configs = [{"name": "retention.ms", "value": "60000"}]
    first, second = await _create_topics(asker, version, _new("a", 3, configs=configs), _new("b", -1, -1))
    assert (first.error_code.value, second.error_code.value) == (0, 0)
    topic = asker.node.broker.topic("a")
    assert topic is not None
    assert (len(topic.partitions), topic.config.retention_ms) == (3, 60000)
    if version >= 5:
        assert (first.num_partitions, first.replication_factor) == (3, 1)
        settings = {one.name: (one.value, one.config_source) for one in first.configs}
        assert settings["retention.ms"] == ("60000", 1)
        assert settings["max.message.bytes"] == ("1048588", 5)
    if version >= 7:
        assert first.topic_id == topic.id


@pytest.mark.parametrize("version", range(2, 8))
async def test_each_refusal_of_a_topic_has_its_code_and_its_reason(asker: Asker, version: int) -> None:
    await create(asker, "taken")
    one = {"partition_index": 0, "broker_ids": [0]}
    elsewhere = {"partition_index": 0, "broker_ids": [7]}
    bad = {
        "taken": (_new("taken"), Code.TOPIC_ALREADY_EXISTS),
        "a b": (_new("a b"), Code.INVALID_TOPIC_EXCEPTION),
        "zero": (_new("zero", 0), Code.INVALID_PARTITIONS),
        "many": (_new("many", 1, 3), Code.INVALID_REPLICATION_FACTOR),
        "odd": (_new("odd", configs=[{"name": "no.such", "value": "1"}]), Code.INVALID_CONFIG),
        "null": (_new("null", configs=[{"name": "retention.ms", "value": None}]), Code.INVALID_CONFIG),
        "both": (_new("both", 1, -1, assignments=[one]), Code.INVALID_REQUEST),
        "nowhere": (_new("nowhere", -1, -1, assignments=[elsewhere]), Code.INVALID_REPLICA_ASSIGNMENT),
        "twice": (_new("twice", -1, -1, assignments=[one, one]), Code.INVALID_REPLICA_ASSIGNMENT),
    }
    results = await _create_topics(asker, version, *(topic for topic, _ in bad.values()), _new("good"))
    assert {r.name: r.error_code.value for r in results} == {n: c.value for n, (_, c) in bad.items()} | {"good": 0}
    assert all(r.error_message for r in results if r.error_code.value)
    assert {topic.name for topic in asker.node.broker.topics()} == {"taken", "good"}


async def test_a_name_that_is_there_twice_is_refused_and_with_it_only_that_name(asker: Asker) -> None:
    results = await _create_topics(asker, 7, _new("a"), _new("a", 2), _new("b"))
    assert {r.name: r.error_code.value for r in results} == {"a": Code.INVALID_REQUEST, "b": 0}
    assert asker.node.broker.topic("a") is None


async def test_validation_creates_nothing(asker: Asker) -> None:
    good, bad = await _create_topics(asker, 7, _new("good", 4), _new("bad", 0), validate_only=True)
    assert (good.error_code.value, good.num_partitions) == (0, 4)
    assert bad.error_code.value == Code.INVALID_PARTITIONS
    assert asker.node.broker.topics() == []


async def test_replicas_may_be_assigned_by_hand(asker: Asker) -> None:
    assignments = [{"partition_index": 1, "broker_ids": [0]}, {"partition_index": 0, "broker_ids": [0]}]
    (result,) = await _create_topics(asker, 7, _new("a", -1, -1, assignments=assignments))
    assert (result.error_code.value, result.num_partitions) == (0, 2)


# DeleteTopics


@pytest.mark.parametrize("version", range(1, 6))
async def test_topics_are_deleted_by_name(asker: Asker, version: int) -> None:
    await create(asker, "a")
    fields = {"topic_names": ["a", "missing"], "timeout": SECOND}
    answer = await asker.ask_by_schema(header.DELETE_TOPICS, version, fields)
    codes = {one.name: one.error_code.value for one in answer.responses}
    assert codes == {"a": 0, "missing": Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert asker.node.broker.topics() == []


async def test_topics_are_deleted_by_id_too(asker: Asker) -> None:
    a, b = await create(asker, "a"), await create(asker, "b")
    strange = uuid.UUID(int=5)
    topics = [
        {"name": "a", "topic_id": None},
        {"name": None, "topic_id": b.id},
        {"name": None, "topic_id": strange},
        {"name": "both", "topic_id": strange},
        {"name": None, "topic_id": None},
    ]
    answer = await asker.ask_by_schema(header.DELETE_TOPICS, 6, {"topics": topics, "timeout": SECOND})
    assert [(one.name, one.topic_id, one.error_code.value) for one in answer.responses] == [
        ("a", a.id, 0),
        ("b", b.id, 0),
        (None, strange, Code.UNKNOWN_TOPIC_ID),
        ("both", strange, Code.INVALID_REQUEST),
        (None, None, Code.INVALID_REQUEST),
    ]
    assert asker.node.broker.topics() == []


async def test_a_topic_named_twice_is_not_deleted(asker: Asker) -> None:
    topic = await create(asker, "a")
    topics = [{"name": "a", "topic_id": None}, {"name": None, "topic_id": topic.id}]
    answer = await asker.ask_by_schema(header.DELETE_TOPICS, 6, {"topics": topics, "timeout": SECOND})
    assert {one.error_code.value for one in answer.responses} == {Code.INVALID_REQUEST}
    assert asker.node.broker.topic("a") is topic


# InitProducerId, FindCoordinator, OffsetForLeaderEpoch


@pytest.mark.parametrize("version", range(6))
async def test_every_idempotent_producer_gets_an_id_of_its_own(asker: Asker, version: int) -> None:
    request = init_producer_id.InitProducerIdRequest(None, 60000)
    answers = [await asker.ask(init_producer_id, header.INIT_PRODUCER_ID, version, request) for _ in range(3)]
    assert [answer.error for answer in answers] == [0, 0, 0]
    assert len({answer.producer_id for answer in answers}) == 3
    assert {answer.producer_epoch for answer in answers} == {0}


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (init_producer_id.InitProducerIdRequest("tx", 0), Code.INVALID_TRANSACTION_TIMEOUT),
        (init_producer_id.InitProducerIdRequest("tx", 900_001), Code.INVALID_TRANSACTION_TIMEOUT),
        (init_producer_id.InitProducerIdRequest("", 60000), Code.INVALID_REQUEST),
        (init_producer_id.InitProducerIdRequest(None, 60000, 5, -1), Code.INVALID_REQUEST),
        (init_producer_id.InitProducerIdRequest(None, 60000, -1, 5), Code.INVALID_REQUEST),
    ],
)
async def test_a_producer_that_cannot_be_served_is_told_for_good(
    asker: Asker, request_: init_producer_id.InitProducerIdRequest, code: Code
) -> None:
    answer = await asker.ask(init_producer_id, header.INIT_PRODUCER_ID, 5, request_)
    assert (answer.error, answer.producer_id) == (code, -1)


@pytest.mark.parametrize("version", range(7))
async def test_this_node_coordinates_everything_so_that_no_client_asks_for_ever(asker: Asker, version: int) -> None:
    for kind in range(3 if version >= 1 else 1):
        fields: dict[str, Any] = {"coordinator_keys": ["g", "h"]} if version >= 4 else {"key": "g"}
        if version >= 1:
            fields["key_type"] = kind
        answer = await asker.ask_by_schema(header.FIND_COORDINATOR, version, fields)
        parts = answer.coordinators if version >= 4 else [answer]
        answered = (-1, Code.INVALID_REQUEST) if kind == 2 and version < 6 else (0, Code.NONE)
        assert [(one.node_id, one.error_code.value) for one in parts] == [answered] * len(parts)


@pytest.mark.parametrize("version", range(2, 5))
async def test_an_epoch_ends_where_the_log_does_or_is_not_known(asker: Asker, version: int) -> None:
    topic = await create(asker, "t")
    epoch = topic.partitions[0].leader_epoch
    await asker.produce("t", 0, [record(1), record(2)])
    asked = [(0, -1, epoch), (0, -1, epoch + 5), (0, epoch + 1, epoch), (9, -1, epoch)]
    partitions = [{"partition": p, "current_leader_epoch": c, "leader_epoch": e} for p, c, e in asked]
    fields: dict[str, Any] = {"topics": [{"topic": "t", "partitions": partitions}]}
    answer = await asker.ask_by_schema(header.OFFSET_FOR_LEADER_EPOCH, version, fields)
    found = [(one.error_code.value, one.leader_epoch, one.end_offset) for one in answer.topics[0].partitions]
    assert found == [
        (0, epoch, 2),
        (0, -1, -1),
        (Code.UNKNOWN_LEADER_EPOCH, -1, -1),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
    ]
