"""Fetch against kio, in every version and both directions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from headrace.ports import Buffer
from headrace.wire.kafka import fetch, fetch_client, header
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.fetch import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from headrace.wire.kafka.leaders import Endpoint, Leader
from headrace.wire.kafka.primitives import MAX_ASKED, NIL_UUID
from tests.wire import oracle

VERSIONS = range(fetch.OLDEST, fetch.NEWEST + 1)


def _identity(topic: Any) -> tuple[str | None, UUID | None]:
    if hasattr(topic, "topic"):
        return topic.topic, None
    return None, topic.topic_id or NIL_UUID


def _asked(one: Any) -> FetchPartition:
    return FetchPartition(
        one.partition,
        getattr(one, "current_leader_epoch", -1),
        one.fetch_offset,
        getattr(one, "last_fetched_epoch", -1),
        getattr(one, "log_start_offset", -1),
        one.partition_max_bytes,
        getattr(one, "high_watermark", fetch.NO_HIGH_WATERMARK),
        getattr(one, "replica_directory_id", None),
    )


def _request(entity: Any) -> FetchRequest:
    state = getattr(entity, "replica_state", None)
    return FetchRequest(
        state.replica_id if state else entity.replica_id,
        oracle.milliseconds(entity.max_wait),
        entity.min_bytes,
        entity.max_bytes,
        entity.isolation_level,
        getattr(entity, "session_id", 0),
        getattr(entity, "session_epoch", -1),
        [FetchTopic(*_identity(t), [_asked(p) for p in t.partitions]) for t in entity.topics],
        [ForgottenTopic(*_identity(t), list(t.partitions)) for t in getattr(entity, "forgotten_topics_data", ())] or (),
        getattr(entity, "rack_id", ""),
        getattr(entity, "cluster_id", None),
        state.replica_epoch if state else -1,
    )


def _pair(value: Any, *names: str) -> tuple[int, int] | None:
    pair = tuple(getattr(value, name) for name in names) if value is not None else (-1, -1)
    return None if pair == (-1, -1) else (pair[0], pair[1])


def _fetched(one: Any) -> FetchedPartition:
    leader = _pair(getattr(one, "current_leader", None), "leader_id", "leader_epoch")
    aborted = one.aborted_transactions
    return FetchedPartition(
        one.partition_index,
        one.error_code.value,
        one.high_watermark,
        one.last_stable_offset,
        getattr(one, "log_start_offset", -1),
        None if one.records is None else [one.records] if one.records else [],
        len(one.records or b""),
        None if aborted is None else [(a.producer_id, a.first_offset) for a in aborted],
        getattr(one, "preferred_read_replica", -1),
        _pair(getattr(one, "diverging_epoch", None), "epoch", "end_offset"),
        Leader(*leader) if leader else None,
        _pair(getattr(one, "snapshot_id", None), "end_offset", "epoch"),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_reads_as_kio_wrote_it_and_is_written_as_kio_writes_it(version: int) -> None:
    for entity in oracle.entities(oracle.schema(header.FETCH, version, "request"), version, 40):
        body = oracle.written(entity)
        request = _request(entity)
        read = fetch.decode_request(bytearray(b"before" + body + b"after"), 6, 6 + len(body), version)
        assert read._replace(forgotten=read.forgotten or ()) == request
        raw = fetch_client.encode_request(version, 7, None, request)
        head = header.read_header(raw, 4, len(raw))
        assert head[:4] == (header.FETCH, version, 7, None)
        assert int.from_bytes(raw[:4]) == len(raw) - 4
        assert raw[head.end :] == body


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_written_as_kio_writes_it_and_reads_as_kio_wrote_it(version: int) -> None:
    for entity in oracle.entities(oracle.schema(header.FETCH, version, "response"), version, 40):
        body = oracle.written(entity)
        throttle_ms = oracle.milliseconds(entity.throttle_time)
        error = entity.error_code.value if version >= 7 else 0
        session_id = entity.session_id if version >= 7 else 0
        topics = [FetchedTopic(*_identity(t), [_fetched(p) for p in t.partitions]) for t in entity.responses]
        endpoints = [Endpoint(e.node_id, e.host, e.port, e.rack) for e in getattr(entity, "node_endpoints", ())]
        buffers = fetch.encode_response(version, 9, throttle_ms, error, session_id, topics, endpoints)
        assert b"".join(buffers) == header.answer(header.FETCH, version, 9, body)
        read = fetch_client.decode_response(body, 0, len(body), version)
        assert read == (throttle_ms, error, session_id, topics, endpoints)


@pytest.mark.parametrize("version", [4, 12, 18])
def test_batches_of_the_log_go_into_the_answer_as_they_are(version: int) -> None:
    first, second = memoryview(b"x" * 100), memoryview(b"y" * 50)
    fetched = FetchedPartition(0, pieces=[first, second], size=150, high_watermark=9)
    buffers = fetch.encode_response(version, 1, 0, 0, 0, [FetchedTopic("t", NIL_UUID, [fetched])])
    assert buffers[1] is first
    assert buffers[2] is second


def _example(version: int) -> bytes:
    asked = FetchPartition(0, 1, 100, 1, 0, 1 << 20, 50, NIL_UUID)
    topics, forgotten = [FetchTopic("t", NIL_UUID, [asked])], [ForgottenTopic("f", NIL_UUID, [1])]
    request = FetchRequest(3, 500, 1, 1 << 20, 1, 12, 3, topics, forgotten, "rack", "cluster", 5)
    return fetch_client.encode_request(version, 1, "c", request)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_anywhere_is_malformed_also_when_the_buffer_goes_on(version: int) -> None:
    raw = _example(version)
    at = header.read_header(raw, 4, len(raw)).end
    fetch.decode_request(raw, at, len(raw), version)
    for end in range(at, len(raw)):
        buffers: tuple[Buffer, ...] = (raw[:end], raw, raw[:end] + b"\0" * 64, raw[:end] + b"\xff" * 64)
        for buffer in buffers:
            with pytest.raises(MalformedRequest):
                fetch.decode_request(buffer, at, end, version)
    with pytest.raises(MalformedRequest):
        fetch.decode_request(raw + b"\0", at, len(raw) + 1, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_flipped_bit_gives_another_request_or_a_refusal(version: int) -> None:
    raw = _example(version)
    at = header.read_header(raw, 4, len(raw)).end
    for bit in range(at * 8, len(raw) * 8):
        buffer = bytearray(raw)
        buffer[bit // 8] ^= 1 << bit % 8
        try:
            fetch.decode_request(buffer, at, len(raw), version)
        except MalformedRequest:
            continue


@pytest.mark.parametrize("version", [12, 15, 18])
def test_unknown_tagged_fields_of_a_newer_client_are_stepped_over(version: int) -> None:
    raw = fetch_client.encode_request(version, 1, "c", FetchRequest(max_wait_ms=5))
    at = header.read_header(raw, 4, len(raw)).end
    body = raw[at:-1] + b"\1\x63\2hi"
    assert fetch.decode_request(body, 0, len(body), version).max_wait_ms == 5


def test_a_follower_may_fetch_as_many_partitions_as_there_can_be_with_all_their_tagged_fields() -> None:
    asked = FetchPartition(0, 1, 2, 3, 4, 5, high_watermark=6, directory_id=UUID(bytes=b"d" * 16))
    request = FetchRequest(topics=[FetchTopic(None, UUID(bytes=b"i" * 16), [asked] * (MAX_ASKED - 1))], replica_id=2)
    raw = fetch_client.encode_request(18, 1, "f", request)
    at = header.read_header(raw, 4, len(raw)).end
    (topic,) = fetch.decode_request(raw, at, len(raw), 18).topics
    assert topic.partitions == [asked] * (MAX_ASKED - 1)
