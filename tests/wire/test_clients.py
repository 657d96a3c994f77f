"""Requests as clients that others wrote encode them, read by us; our answers, read by them."""

from __future__ import annotations

import io
from typing import Any

import aiokafka.protocol.fetch
import aiokafka.protocol.metadata
import aiokafka.protocol.offset
import aiokafka.protocol.produce
import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from headrace.wire.kafka import api_versions, fetch, header, list_offsets, metadata, produce

BATCH = b"sixty-one bytes at the least, in the life of a batch of records"


@pytest.mark.parametrize("version", range(3, 9))
def test_produce_of_aiokafka(version: int) -> None:
    kind = getattr(aiokafka.protocol.produce, f"ProduceRequest_v{version}")
    topics = [("one", [(0, BATCH), (7, BATCH * 2)]), ("two", [(1, BATCH)])]
    raw = kind(transactional_id="tx", required_acks=-1, timeout=1500, topics=topics).encode()
    request = produce.decode_request(raw, 0, len(raw), version)
    assert request[:3] == ("tx", -1, 1500)
    assert [(t.name, [(p, raw[a:b]) for p, a, b in t.partitions]) for t in request.topics] == topics

    answer = produce.encode_single(version, 5, b"one", 7, 1234, -1, 3)
    response = kind.RESPONSE_TYPE.decode(io.BytesIO(answer[8:]))
    _, ((partition, error, offset, *_),) = response.topics[0]
    assert (partition, error, offset) == (7, 0, 1234)


@pytest.mark.parametrize("version", range(3, 13))
def test_produce_of_kafka_python(version: int) -> None:
    topic = ProduceRequest.TopicProduceData
    partition = topic.PartitionProduceData(index=7, records=BATCH)
    asked = ProduceRequest(
        transactional_id=None,
        acks=1,
        timeout_ms=1500,
        topic_data=[topic(name="one", partition_data=[partition])],
    )
    raw = bytes(asked.encode(version=version))
    request = produce.decode_request(raw, 0, len(raw), version)
    assert request[:3] == (None, 1, 1500)
    ((name, _, [(index, start, end)]),) = request.topics
    assert (name, index, raw[start:end]) == ("one", 7, BATCH)

    answer = produce.encode_single(version, 5, b"one", 7, 1234, -1, 3)
    _, at = header.read_response_header(answer, 4, len(answer), header.PRODUCE, version)
    response = ProduceResponse.decode(answer[at:], version=version)
    result = response.responses[0].partition_responses[0]
    assert (result.index, result.error_code, result.base_offset) == (7, 0, 1234)


@pytest.mark.parametrize("version", range(4, 13))
def test_fetch_of_kafka_python(version: int) -> None:
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(partition=3, fetch_offset=55, partition_max_bytes=1000)
    asked = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=9000,
        isolation_level=1,
        topics=[topic(topic="one", partitions=[partition])],
    )
    raw = bytes(asked.encode(version=version))
    request = fetch.decode_request(raw, 0, len(raw), version)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 9000)
    ((name, _, [want]),) = request.topics
    assert (name, want.partition, want.fetch_offset, want.max_bytes) == ("one", 3, 55, 1000)

    fetched = fetch.FetchedPartition(3, 0, 60, 60, 0, [BATCH[:20], BATCH[20:]], len(BATCH))
    buffers = fetch.encode_response(version, 5, 0, 0, 0, [fetch.FetchedTopic("one", None, [fetched])])
    answer = b"".join(buffers)
    _, at = header.read_response_header(answer, 4, len(answer), header.FETCH, version)
    result: Any = FetchResponse.decode(answer[at:], version=version).responses[0].partitions[0]
    assert (result.partition_index, result.high_watermark, bytes(result.records)) == (3, 60, BATCH)


@pytest.mark.parametrize("version", range(4, 12))
def test_fetch_of_aiokafka(version: int) -> None:
    kind = getattr(aiokafka.protocol.fetch, f"FetchRequest_v{version}")
    sizes = {"v4": (3, 55, 1000), "v5": (3, 55, 0, 1000), "v9": (3, 2, 55, 0, 1000)}
    partition = sizes["v9" if version >= 9 else "v5" if version >= 5 else "v4"]
    fields: dict[str, Any] = {"replica_id": -1, "max_wait_time": 500, "min_bytes": 1, "max_bytes": 9000}
    fields |= {"isolation_level": 1, "topics": [("one", [partition])]}
    if version >= 7:
        fields |= {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [("two", [4])]}
    if version >= 11:
        fields["rack_id"] = "r"
    raw = kind(**fields).encode()
    request = fetch.decode_request(raw, 0, len(raw), version)
    ((name, _, [want]),) = request.topics
    assert (name, want.partition, want.fetch_offset, want.max_bytes) == ("one", 3, 55, 1000)
    assert [(t.name, t.partitions) for t in request.forgotten] == ([("two", [4])] if version >= 7 else [])


@pytest.mark.parametrize("version", range(6))
def test_metadata_of_aiokafka(version: int) -> None:
    kind = getattr(aiokafka.protocol.metadata, f"MetadataRequest_v{version}")
    creation = {"allow_auto_topic_creation": False} if version >= 4 else {}
    raw = kind(topics=["one", "two"], **creation).encode()
    request = metadata.decode_request(raw, 0, len(raw), version)
    assert request.topics is not None
    assert [topic.name for topic in request.topics] == ["one", "two"]
    assert request.allow_auto_create == (version < 4)

    cluster = metadata.ClusterState([metadata.Node(0, "localhost", 9092)], "cluster", 0)
    topic = metadata.TopicState("one", None, [metadata.PartitionState(0, 0, 1, [0], [0])])
    answer = metadata.encode_response(version, 5, cluster, [metadata.encode_topic(version, topic)])
    response = kind.RESPONSE_TYPE.decode(io.BytesIO(answer[8:]))
    assert response.brokers[0][:3] == (0, "localhost", 9092)
    assert response.topics[0][1] == "one"


@pytest.mark.parametrize("version", range(1, 4))
def test_list_offsets_of_aiokafka(version: int) -> None:
    """The versions that it sends; it has a schema of 4 and 5 too, with an epoch of eight bytes, which is not
    Kafka's.
    """
    kind = getattr(aiokafka.protocol.offset, f"OffsetRequest_v{version}")
    isolation = {"isolation_level": 1} if version >= 2 else {}
    raw = kind(replica_id=-1, topics=[("one", [(3, -1)])], **isolation).encode()
    request = list_offsets.decode_request(raw, 0, len(raw), version)
    assert request.topics == [("one", [list_offsets.AskedOffset(3, -1, list_offsets.LATEST)])]


def test_api_versions_of_kafka_python() -> None:
    asked = ApiVersionsRequest(client_software_name="kafka-python", client_software_version="3.0.12")
    asked.with_header(correlation_id=3, client_id="me")
    raw = bytes(asked.encode(version=4, header=True, framed=True))
    head = header.read_header(raw, 4, len(raw))
    assert head[:4] == (header.API_VERSIONS, 4, 3, "me")
    assert api_versions.decode_request(raw, head.end, len(raw), 4) == ("kafka-python", "3.0.12")
