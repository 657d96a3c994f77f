"""The other codecs written by hand (ApiVersions, Metadata, ListOffsets, InitProducerId), against kio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.wire.kafka import api_versions, header, init_producer_id, list_offsets, metadata
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.list_offsets import AskedOffset
from headrace.wire.kafka.primitives import MAX_ASKED, NIL_UUID, uvarint
from tests.wire import oracle

COUNT = 30
ALL = [
    (module, key, version)
    for module, key in (
        (api_versions, header.API_VERSIONS),
        (metadata, header.METADATA),
        (list_offsets, header.LIST_OFFSETS),
        (init_producer_id, header.INIT_PRODUCER_ID),
    )
    for version in range(module.OLDEST, module.NEWEST + 1)
]


def _metadata_request(entity: Any, version: int) -> metadata.MetadataRequest | None:
    topics = None
    if entity.topics is not None:
        topics = [metadata.AskedTopic(t.name, getattr(t, "topic_id", None)) for t in entity.topics]
    if version < 12 and topics and any(name is None or topic_id is not None for name, topic_id in topics):
        return None  # cannot be meant: these versions ask by name
    return metadata.MetadataRequest(
        None if version == 0 and not topics else topics,
        getattr(entity, "allow_auto_topic_creation", True),
        getattr(entity, "include_cluster_authorized_operations", False),
        getattr(entity, "include_topic_authorized_operations", False),
    )


def _list_offsets_request(entity: Any, version: int) -> list_offsets.ListOffsetsRequest:
    return list_offsets.ListOffsetsRequest(
        [
            (
                t.name,
                [
                    list_offsets.AskedOffset(p.partition_index, getattr(p, "current_leader_epoch", -1), p.timestamp)
                    for p in t.partitions
                ],
            )
            for t in entity.topics
        ],
        entity.replica_id,
        getattr(entity, "isolation_level", 0),
        oracle.milliseconds(entity.timeout) if version >= 10 else 0,
    )


def _request(key: int, entity: Any, version: int) -> Any:
    if key == header.API_VERSIONS:
        return api_versions.ApiVersionsRequest(
            getattr(entity, "client_software_name", ""), getattr(entity, "client_software_version", "")
        )
    if key == header.METADATA:
        return _metadata_request(entity, version)
    if key == header.LIST_OFFSETS:
        return _list_offsets_request(entity, version)
    return init_producer_id.InitProducerIdRequest(
        entity.transactional_id,
        oracle.milliseconds(entity.transaction_timeout),
        getattr(entity, "producer_id", -1),
        getattr(entity, "producer_epoch", -1),
    )


@pytest.mark.parametrize(("module", "key", "version"), ALL)
def test_a_request_reads_as_kio_wrote_it_and_is_written_as_kio_writes_it(module: Any, key: int, version: int) -> None:
    for entity in oracle.entities(oracle.schema(key, version, "request"), version, COUNT):
        request = _request(key, entity, version)
        if request is None:
            continue
        body = oracle.written(entity)
        assert module.decode_request(bytearray(b"before" + body + b"after"), 6, 6 + len(body), version) == request
        raw = module.encode_request(version, 7, "me", request)
        assert raw == header.question(key, version, 7, "me", body)


def _topic_state(t: Any) -> metadata.TopicState:
    partitions = [
        metadata.PartitionState(
            p.partition_index,
            p.leader_id,
            getattr(p, "leader_epoch", -1),
            list(p.replica_nodes),
            list(p.isr_nodes),
            list(getattr(p, "offline_replicas", ())),
            p.error_code.value,
        )
        for p in t.partitions
    ]
    return metadata.TopicState(
        t.name,
        (t.topic_id or NIL_UUID) if hasattr(t, "topic_id") else None,
        partitions,
        t.error_code.value,
        getattr(t, "is_internal", False),
        getattr(t, "topic_authorized_operations", metadata.NOT_ASKED),
    )


@pytest.mark.parametrize("version", range(metadata.NEWEST + 1))
def test_a_metadata_answer_is_written_as_kio_writes_it_and_reads_as_kio_wrote_it(version: int) -> None:
    for entity in oracle.entities(oracle.schema(header.METADATA, version, "response"), version, COUNT):
        body = oracle.written(entity)
        topics = [_topic_state(t) for t in entity.topics]
        cluster = metadata.ClusterState(
            [metadata.Node(b.node_id, b.host, b.port, getattr(b, "rack", None)) for b in entity.brokers],
            getattr(entity, "cluster_id", None),
            getattr(entity, "controller_id", -1),
            getattr(entity, "cluster_authorized_operations", metadata.NOT_ASKED),
            entity.error_code.value if version >= 13 else 0,
            oracle.milliseconds(entity.throttle_time) if version >= 3 else 0,
        )
        encoded = [metadata.encode_topic(version, topic) for topic in topics]
        raw = metadata.encode_response(version, 9, cluster, encoded)
        assert raw == header.answer(header.METADATA, version, 9, body)
        assert metadata.decode_response(body, 0, len(body), version) == (cluster, topics)


@pytest.mark.parametrize("version", range(1, list_offsets.NEWEST + 1))
def test_a_list_offsets_answer_is_written_as_kio_writes_it_and_reads_as_kio_wrote_it(version: int) -> None:
    for entity in oracle.entities(oracle.schema(header.LIST_OFFSETS, version, "response"), version, COUNT):
        body = oracle.written(entity)
        topics = [
            (
                t.name,
                [
                    list_offsets.FoundOffset(
                        p.partition_index,
                        p.error_code.value,
                        p.timestamp,
                        p.offset,
                        getattr(p, "leader_epoch", -1),
                    )
                    for p in t.partitions
                ],
            )
            for t in entity.topics
        ]
        throttle_ms = oracle.milliseconds(entity.throttle_time) if version >= 2 else 0
        raw = list_offsets.encode_response(version, 9, topics, throttle_ms)
        assert raw == header.answer(header.LIST_OFFSETS, version, 9, body)
        assert list_offsets.decode_response(body, 0, len(body), version) == (topics, throttle_ms)


@pytest.mark.parametrize("version", range(api_versions.NEWEST + 1))
def test_an_api_versions_answer_reads_as_kio_wrote_it_and_kio_reads_ours(version: int) -> None:
    for entity in oracle.entities(oracle.schema(header.API_VERSIONS, version, "response"), version, COUNT):
        ranges = [api_versions.ApiRange(a.api_key, a.min_version, a.max_version) for a in entity.api_keys]
        throttle_ms = oracle.milliseconds(entity.throttle_time) if version >= 1 else 0
        body = oracle.written(entity)
        expected = (entity.error_code.value, ranges, throttle_ms)
        assert api_versions.decode_response(body, 0, len(body), version) == expected
        raw = api_versions.encode_response(version, 9, entity.error_code.value, ranges, throttle_ms)
        features = (
            "supported_features",
            "finalized_features",
            "finalized_features_epoch",
            "zk_migration_ready",
        )
        plain = {name: value for name, value in oracle.defaults(type(entity)).items() if name in features}
        body = oracle.written(oracle.changed(entity, **plain))
        assert raw == header.answer(header.API_VERSIONS, version, 9, body)


@pytest.mark.parametrize("version", range(api_versions.NEWEST + 1))
def test_the_levels_of_features_read_as_kio_wrote_them(version: int) -> None:
    for entity in oracle.entities(oracle.schema(header.API_VERSIONS, version, "response"), version, COUNT):
        body = oracle.written(entity)
        told = {one.name: one.max_version_level for one in getattr(entity, "finalized_features", ())}
        assert api_versions.decode_levels(body, 0, len(body), version) == told
    features = [api_versions.Feature("transaction.version", 0, 2, 2)]
    raw = api_versions.encode_response(version, 9, 0, [api_versions.ApiRange(18, 0, 4)], features=features)
    levels = api_versions.decode_levels(raw, 8, len(raw), version)
    assert levels == ({"transaction.version": 2} if version >= api_versions.LEVELS_FROM else {})


@pytest.mark.parametrize("version", range(init_producer_id.NEWEST + 1))
def test_an_init_producer_id_answer_is_written_as_kio_writes_it(version: int) -> None:
    for entity in oracle.entities(oracle.schema(header.INIT_PRODUCER_ID, version, "response"), version, COUNT):
        body = oracle.written(entity)
        answer = init_producer_id.InitProducerIdResponse(
            entity.error_code.value,
            entity.producer_id,
            entity.producer_epoch,
            oracle.milliseconds(entity.throttle_time),
        )
        raw = init_producer_id.encode_response(version, 9, answer)
        assert raw == header.answer(header.INIT_PRODUCER_ID, version, 9, body)
        assert init_producer_id.decode_response(body, 0, len(body), version) == answer


def _refused(decode: Callable[..., Any], buffer: bytes, end: int, version: int) -> bool:
    try:
        decode(buffer, 0, end, version)
    except MalformedRequest:
        return True
    return False


@pytest.mark.parametrize(("module", "key", "version"), ALL)
def test_a_request_cut_anywhere_is_malformed_and_a_flipped_bit_never_worse(module: Any, key: int, version: int) -> None:
    for entity in oracle.entities(oracle.schema(key, version, "request"), 3, 5):
        raw = oracle.written(entity)
        for end in range(0, len(raw), max(1, len(raw) // 200)):
            for buffer in (raw[:end], raw, raw[:end] + b"\xff" * 32):
                assert _refused(module.decode_request, buffer, end, version)
        if key != header.METADATA:  # see the next test
            assert _refused(module.decode_request, raw + b"\0", len(raw) + 1, version)
        for bit in range(0, len(raw) * 8, max(1, len(raw) // 40)):
            flipped = bytearray(raw)
            flipped[bit // 8] ^= 1 << bit % 8
            _refused(module.decode_request, bytes(flipped), len(raw), version)


@pytest.mark.parametrize("version", range(11, 14))
def test_metadata_of_librdkafka_asks_for_all_topics_with_three_bytes_too_many(version: int) -> None:
    sent = bytes.fromhex("00 00 00 00 01 00 00")  # its null is that of the old encoding, of 4 bytes
    assert metadata.decode_request(sent, 0, len(sent), version) == metadata.MetadataRequest(None, False)


def test_metadata_version_0_means_all_topics_by_naming_none() -> None:
    assert metadata.decode_request(b"\0\0\0\0", 0, 4, 0).topics is None
    assert metadata.decode_request(b"\0\0\0\0", 0, 4, 1).topics == []
    assert metadata.decode_request(b"\xff\xff\xff\xff", 0, 4, 1).topics is None
    assert _refused(metadata.decode_request, b"\xff\xff\xff\xff", 4, 0)


def _body(raw: bytes) -> bytes:
    return raw[header.read_header(raw, 4, len(raw)).end :]


@pytest.mark.parametrize("version", [1, 6])
def test_offsets_are_asked_for_no_more_partitions_than_a_request_may_name(version: int) -> None:
    for count, is_fine in ((MAX_ASKED - 1, True), (MAX_ASKED, False)):  # and the topic itself
        request = list_offsets.ListOffsetsRequest([("t", [AskedOffset(0, -1, -1)] * count)])
        body = _body(list_offsets.encode_request(version, 1, None, request))
        assert _refused(list_offsets.decode_request, body, len(body), version) is not is_fine


@pytest.mark.parametrize("version", [1, 9, 12])
def test_metadata_is_asked_for_no_more_topics_than_a_request_may_name(version: int) -> None:
    for count, is_fine in ((MAX_ASKED, True), (MAX_ASKED + 1, False)):
        request = metadata.MetadataRequest([metadata.AskedTopic("t", None)] * count)
        body = _body(metadata.encode_request(version, 1, None, request))
        assert _refused(metadata.decode_request, body, len(body), version) is not is_fine


def test_a_flood_of_tagged_fields_is_malformed_in_each() -> None:
    flood = uvarint(1_000_000) + b"\0\0" * 1_000_000
    for module, version, request in (
        (api_versions, 3, api_versions.ApiVersionsRequest("n", "v")),
        (metadata, 9, metadata.MetadataRequest([])),
        (list_offsets, 6, list_offsets.ListOffsetsRequest([])),
        (init_producer_id, 2, init_producer_id.InitProducerIdRequest(None, 1)),
    ):
        body = _body(module.encode_request(version, 1, None, request))[:-1] + flood
        assert _refused(module.decode_request, body, len(body), version)
