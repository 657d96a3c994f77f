"""The short ways: a Produce of one batch and a Fetch of one partition say and mean what the general ways say and mean.

Each kernel that reads them gives what its twin gives, whatever the bytes are."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.kafka import fetch, fetch_client, fetch_single, header, produce, produce_client, twin
from headrace.wire.kafka.fetch import FetchedPartition, FetchedTopic, FetchPartition, FetchRequest, FetchTopic
from headrace.wire.kafka.produce import PartitionResult, TopicResult
from tests.records.kernels import native, plain_batch
from tests.records.test_differential import damaged

TOPIC_ID = UUID(bytes=bytes(range(16)))
BATCH = bytes(plain_batch(3))
PRODUCE_VERSIONS = range(produce.OLDEST, produce.NEWEST + 1)
FETCH_VERSIONS = range(fetch_single.BY_ID, fetch.NEWEST + 1)
SINGLE = [twin.single] if native is None else [twin.single, native.kafka_single]
ANSWER = [twin.single_answer] if native is None else [twin.single_answer, native.kafka_single_answer]


def produce_request(
    version: int,
    batch: bytes = BATCH,
    name: str = "topic",
    transactional_id: str | None = None,
    client_id: str | None = "me",
    partition: int = 3,
) -> bytes:
    """Without its size."""
    topics = [(name, TOPIC_ID, [(partition, batch)])]
    return b"".join(produce_client.encode_request(version, -7, client_id, transactional_id, 1, 1000, topics))[4:]


@pytest.mark.parametrize("single", SINGLE)
@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("name", ["t", "ü" * 63])
@pytest.mark.parametrize("client_id", [None, "", "me"])
def test_a_request_of_one_batch_is_read_as_the_general_way_reads_it(
    single: Any, version: int, name: str, client_id: str | None
) -> None:
    raw = produce_request(version, name=name, client_id=client_id)
    buffer = bytearray(b"before" + raw + b"after")
    found = single(memoryview(buffer), 6, 6 + len(raw))
    at = header.read_header(buffer, 6, 6 + len(raw)).end
    request = produce.decode_request(buffer, at, 6 + len(raw), version)
    ((general_name, topic_id, [(partition, start, stop)]),) = request.topics
    topic = topic_id.bytes if topic_id is not None else general_name
    assert found[:8] == (version, -7, request.acks, request.timeout_ms, topic, partition, start, stop)
    assert (found[8].record_count, found[8].size) == (3, len(BATCH))


@pytest.mark.parametrize("single", SINGLE)
@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_what_is_not_plain_is_left_to_the_general_way(single: Any, version: int) -> None:
    topics = [("topic", TOPIC_ID, [(0, BATCH), (1, BATCH)])]
    two = b"".join(produce_client.encode_request(version, 1, "me", None, 1, 1000, topics))[4:]
    flipped = BATCH[:-1] + bytes((BATCH[-1] ^ 1,))
    others = [
        two,
        produce_request(version, transactional_id="tx"),
        produce_request(version, flipped),
        produce_request(version, BATCH + BATCH),
        produce_request(version, b""),
        produce_request(version) + b"\0",
        b"\0\1" + produce_request(version)[2:],
    ]
    if produce.FLEXIBLE <= version < produce.BY_ID:
        others.append(produce_request(version, name="n" * 127))
    for raw in others:
        assert single(raw, 0, len(raw)) is None
    whole = produce_request(version)
    for end in range(len(whole)):
        assert single(whole, 0, end) is None


@pytest.mark.parametrize("version", [2, 14, -1])
@pytest.mark.parametrize("single", SINGLE)
def test_versions_that_are_not_known_are_left_to_the_general_way(single: Any, version: int) -> None:
    raw = version.to_bytes(2, signed=True).join((b"\0\0", produce_request(13)[4:]))
    assert single(raw, 0, len(raw)) is None


@pytest.mark.skipif(native is None, reason="the native kernels are not built here")
@settings(max_examples=600)
@given(st.randoms(use_true_random=False), st.sampled_from(list(PRODUCE_VERSIONS)))
def test_damaged_requests_are_judged_alike(seed: random.Random, version: int) -> None:
    raw = damaged(produce_request(version), seed)
    assert native.kafka_single(raw, 0, len(raw)) == twin.single(raw, 0, len(raw))
    head = produce_request(version)[: -len(BATCH)]
    raw = damaged(head, seed) + BATCH
    assert native.kafka_single(raw, 0, len(raw)) == twin.single(raw, 0, len(raw))


@pytest.mark.parametrize("single", SINGLE)
def test_a_range_outside_of_the_buffer_is_the_callers_fault(single: Any) -> None:
    for at, end in ((0, 11), (-1, 5), (5, 4)):
        with pytest.raises(ValueError, match="is not within the 10 bytes"):
            single(bytes(10), at, end)


@pytest.mark.parametrize("answer", ANSWER)
@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("name", ["t", "ü" * 63])
def test_its_answer_has_the_same_bytes_as_the_general_one(answer: Any, version: int, name: str) -> None:
    raw = produce_request(version, name=name)
    found = twin.single(raw, 0, len(raw))
    by_id = version >= produce.BY_ID
    result = PartitionResult(3, 0, 1 << 40, 5, 6)
    topic = TopicResult(None if by_id else name, TOPIC_ID if by_id else None, [result])
    assert answer(found, 1 << 40, 5, 6) == produce.encode_response(version, -7, [topic])


# Fetch


def fetch_request(version: int, **changed: Any) -> tuple[FetchRequest, bytes]:
    """The request, and its body."""
    partition = changed.pop("partition", FetchPartition(3, 4, 1 << 40, -1, -1, 1 << 20))
    asked = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 25, isolation_level=1, session_epoch=-1)
    asked = asked._replace(topics=[FetchTopic(None, TOPIC_ID, [partition])])._replace(**changed)
    raw = fetch_client.encode_request(version, 9, "me", asked)
    return asked, raw[header.read_header(raw, 4, len(raw)).end :]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_of_one_partition_is_read_as_the_general_way_reads_it(version: int) -> None:
    asked, body = fetch_request(version)
    found = fetch_single.decode_single(b"before" + body + b"after", 6, 6 + len(body), version)
    (partition,) = asked.topics[0].partitions
    assert found == (
        asked.max_wait_ms, asked.min_bytes, asked.max_bytes, asked.isolation_level, TOPIC_ID.bytes, partition.partition,
        partition.current_leader_epoch, partition.fetch_offset, partition.last_fetched_epoch, partition.max_bytes,
    )  # fmt: skip


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_that_says_more_is_left_to_the_general_way(version: int) -> None:
    one = FetchTopic(None, TOPIC_ID, [FetchPartition(0, -1, 0, -1, -1, 1)])
    changes: list[dict[str, Any]] = [
        {"session_epoch": 0},
        {"session_id": 5, "session_epoch": 3},
        {"topics": [one, one]},
        {"topics": [one._replace(partitions=one.partitions * 2)]},
        {"topics": ()},
        {"rack_id": "a"},
        {"replica_id": 1},
    ]
    for change in changes:
        _, body = fetch_request(version, **change)
        assert fetch_single.decode_single(body, 0, len(body), version) is None
    _, body = fetch_request(version)
    for end in range(len(body)):
        assert fetch_single.decode_single(body, 0, end, version) is None


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize("size", [1, 126, 127, 16_382, 16_383, 1 << 20, 3 << 20])
def test_the_answer_to_a_fetch_has_the_same_bytes_as_the_general_one(
    version: int, is_committed: bool, size: int
) -> None:
    records = b"r" * size
    parts = fetch_single.encode_single(9, TOPIC_ID.bytes, 3, 70, 60, 50, is_committed, [records], size)
    fetched = FetchedPartition(3, 0, 70, 60, 50, [records], size, [] if is_committed else None)
    general = fetch.encode_response(version, 9, 0, 0, 0, [FetchedTopic(None, TOPIC_ID, [fetched])])
    assert b"".join(parts) == b"".join(general)
