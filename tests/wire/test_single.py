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
SINGLE_FETCH = [fetch_single.decode_single, *([] if native is None else [native.kafka_single_fetch])]
FETCH_HEAD = [fetch_single.single_head, *([] if native is None else [native.kafka_single_fetch_head])]


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


def fetch_request(version: int, client_id: str | None = "me", **changed: Any) -> tuple[FetchRequest, bytes]:
    """The request, and its frame without the size."""
    partition = changed.pop("partition", FetchPartition(3, 4, 1 << 40, -1, -1, 1 << 20))
    asked = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 25, isolation_level=1, session_epoch=-1)
    asked = asked._replace(topics=[FetchTopic(None, TOPIC_ID, [partition])])._replace(**changed)
    return asked, bytes(fetch_client.encode_request(version, 9, client_id, asked))[4:]


@pytest.mark.parametrize("single", SINGLE_FETCH)
@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("client_id", [None, "", "me", "ü" * 200])
def test_a_fetch_of_one_partition_is_read_as_the_general_way_reads_it(
    single: Any, version: int, client_id: str | None
) -> None:
    asked, raw = fetch_request(version, client_id)
    found = single(memoryview(b"before" + raw + b"after"), 6, 6 + len(raw))
    (partition,) = asked.topics[0].partitions
    assert found == (
        9, asked.min_bytes, asked.max_bytes, asked.isolation_level, TOPIC_ID.bytes, partition.partition,
        partition.current_leader_epoch, partition.fetch_offset, partition.max_bytes,
    )  # fmt: skip


@pytest.mark.parametrize("single", SINGLE_FETCH)
@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_that_says_more_is_left_to_the_general_way(single: Any, version: int) -> None:
    one = FetchTopic(None, TOPIC_ID, [FetchPartition(0, -1, 0, -1, -1, 1)])
    changes: list[dict[str, Any]] = [
        {"session_epoch": 0},
        {"session_id": 5, "session_epoch": 3},
        {"topics": [one, one]},
        {"topics": [one._replace(partitions=one.partitions * 2)]},
        {"topics": ()},
        {"rack_id": "a"},
        {"replica_id": 1},
        {"partition": FetchPartition(3, 4, 1 << 40, 2, -1, 1 << 20)},  # a follower's last epoch
    ]
    for change in changes:
        _, raw = fetch_request(version, **change)
        assert single(raw, 0, len(raw)) is None
    _, whole = fetch_request(version)
    for end in range(len(whole)):
        assert single(whole, 0, end) is None
    tagged = whole.replace(b"me\0", b"me\1\5\1x")
    for raw in (b"\1" + whole[1:], b"\0\2" + whole[2:], whole + b"\0", whole.replace(b"me", b"\xff\xff"), tagged):
        assert single(raw, 0, len(raw)) is None


@pytest.mark.parametrize("version", [4, 12, 19, -1])
@pytest.mark.parametrize("single", SINGLE_FETCH)
def test_fetches_of_other_versions_are_left_to_the_general_way(single: Any, version: int) -> None:
    for known in FETCH_VERSIONS:
        raw = version.to_bytes(2, signed=True).join((b"\0\1", fetch_request(known)[1][4:]))
        assert single(raw, 0, len(raw)) is None


@pytest.mark.skipif(native is None, reason="the native kernels are not built here")
@settings(max_examples=600)
@given(st.randoms(use_true_random=False), st.sampled_from(list(FETCH_VERSIONS)))
def test_damaged_fetches_are_judged_alike(seed: random.Random, version: int) -> None:
    raw = damaged(fetch_request(version)[1], seed)
    assert native.kafka_single_fetch(raw, 0, len(raw)) == fetch_single.decode_single(raw, 0, len(raw))


@pytest.mark.parametrize("single", SINGLE_FETCH)
def test_a_fetch_outside_of_the_buffer_is_the_callers_fault(single: Any) -> None:
    for at, end in ((0, 11), (-1, 5), (5, 4)):
        with pytest.raises(ValueError, match="is not within the 10 bytes"):
            single(bytes(10), at, end)


@pytest.mark.parametrize("head", FETCH_HEAD)
@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("isolation", [0, 1])
@pytest.mark.parametrize("size", [1, 126, 127, 16_382, 16_383, 1 << 20, 3 << 20])
def test_the_answer_to_a_fetch_has_the_same_bytes_as_the_general_one(
    head: Any, version: int, isolation: int, size: int
) -> None:
    _, raw = fetch_request(version, isolation_level=isolation)
    asked = fetch_single.decode_single(raw, 0, len(raw))
    records = b"r" * size
    fetched = FetchedPartition(3, 0, 70, 60, 50, [records], size, [] if isolation else None)
    general = fetch.encode_response(version, 9, 0, 0, 0, [FetchedTopic(None, TOPIC_ID, [fetched])])
    assert head(asked, 70, 60, 50, size) + records + fetch_single.NO_TAGS == b"".join(general)
