"""Produce against kio, in every version and both directions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from headrace.wire.kafka import header, produce, produce_client
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.leaders import Endpoint, Leader
from headrace.wire.kafka.primitives import MAX_STRING_BYTES, MAX_TAGS, NIL_UUID, uvarint
from headrace.wire.kafka.produce import PartitionResult, TopicResult
from tests.wire import oracle

VERSIONS = range(produce.OLDEST, produce.NEWEST + 1)


def _identity(topic: Any) -> tuple[str | None, UUID | None]:
    if hasattr(topic, "name"):
        return topic.name, None
    return None, topic.topic_id or NIL_UUID


def _leader(value: Any) -> Leader | None:
    pair = (value.leader_id, value.leader_epoch)
    return None if pair == (-1, -1) else Leader(*pair)


def _result(one: Any) -> PartitionResult:
    return PartitionResult(
        one.index,
        one.error_code.value,
        one.base_offset,
        oracle.milliseconds(one.log_append_time),
        getattr(one, "log_start_offset", -1),
        [(e.batch_index, e.batch_index_error_message) for e in getattr(one, "record_errors", ())],
        getattr(one, "error_message", None),
        _leader(one.current_leader) if hasattr(one, "current_leader") else None,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_reads_as_kio_wrote_it_and_is_written_as_kio_writes_it(version: int) -> None:
    for entity in oracle.entities(oracle.schema(header.PRODUCE, version, "request"), version, 40):
        body = oracle.written(entity)
        buffer = bytearray(b"before" + body + b"after, which belongs to the next request")
        request = produce.decode_request(buffer, 6, 6 + len(body), version)
        timeout_ms = oracle.milliseconds(entity.timeout)
        assert request[:3] == (entity.transactional_id, entity.acks, timeout_ms)
        seen = [
            (
                *topic[:2],
                [(p, None if start < 0 else bytes(buffer[start:end])) for p, start, end in topic.partitions],
            )
            for topic in request.topics
        ]
        topics = [(*_identity(t), [(p.index, p.records) for p in t.partition_data]) for t in entity.topic_data]
        assert seen == topics

        pieces = produce_client.encode_request(
            version, 7, "me", entity.transactional_id, entity.acks, timeout_ms, topics
        )
        raw = b"".join(pieces)
        head = header.read_header(raw, 4, len(raw))
        assert head[:4] == (header.PRODUCE, version, 7, "me")
        assert int.from_bytes(raw[:4]) == len(raw) - 4
        assert raw[head.end :] == body


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_written_as_kio_writes_it_and_reads_as_kio_wrote_it(version: int) -> None:
    for entity in oracle.entities(oracle.schema(header.PRODUCE, version, "response"), version, 40):
        body = oracle.written(entity)
        topics = [
            TopicResult(*_identity(topic), [_result(one) for one in topic.partition_responses])
            for topic in entity.responses
        ]
        throttle_ms = oracle.milliseconds(entity.throttle_time)
        endpoints = [Endpoint(e.node_id, e.host, e.port, e.rack) for e in getattr(entity, "node_endpoints", ())]
        raw = produce.encode_response(version, 9, topics, throttle_ms, endpoints)
        assert raw == header.answer(header.PRODUCE, version, 9, body)
        assert produce_client.decode_response(body, 0, len(body), version) == (topics, throttle_ms, endpoints)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["t", "n" * 126, "n" * 127, "n" * 249, "ü" * 63])
def test_the_quick_answer_has_the_same_bytes_as_the_general_one(version: int, name: str) -> None:
    topic_id = UUID(bytes=bytes(range(16)))
    by_id = version >= 13
    topic = TopicResult(None if by_id else name, topic_id if by_id else None, [PartitionResult(3, 0, 1 << 40, 5, 6)])
    raw = topic_id.bytes if by_id else name.encode()
    assert produce.encode_single(version, -2, raw, 3, 1 << 40, 5, 6) == produce.encode_response(version, -2, [topic])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_anywhere_is_malformed_also_when_the_buffer_goes_on(version: int) -> None:
    topics = [("topic", UUID(bytes=b"i" * 16), [(0, b"batch bytes"), (1, None)])]
    raw = b"".join(produce_client.encode_request(version, 1, "c", "tx", -1, 1000, topics))
    at = header.read_header(raw, 4, len(raw)).end
    assert len(produce.decode_request(raw, at, len(raw), version).topics) == 1
    for end in range(at, len(raw)):
        for buffer in (raw[:end], raw, raw[:end] + b"\0" * 64, raw[:end] + b"\xff" * 64):
            with pytest.raises(MalformedRequest):
                produce.decode_request(buffer, at, end, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_byte_too_many_is_malformed(version: int) -> None:
    raw = b"".join(produce_client.encode_request(version, 1, None, None, 1, 1000, []))
    at = header.read_header(raw, 4, len(raw)).end
    with pytest.raises(MalformedRequest):
        produce.decode_request(raw + b"\0", at, len(raw) + 1, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_positions_of_batches_always_lie_inside_of_the_request(version: int) -> None:
    """Every bit of a request flipped: a refusal, or positions that the caller can trust."""
    topics = [("topic", UUID(bytes=b"i" * 16), [(0, b"batch"), (1, b"")])]
    raw = b"".join(produce_client.encode_request(version, 1, "c", None, -1, 1000, topics))
    at = header.read_header(raw, 4, len(raw)).end
    for bit in range(at * 8, len(raw) * 8):
        buffer = bytearray(raw)
        buffer[bit // 8] ^= 1 << bit % 8
        try:
            request = produce.decode_request(buffer + b"\1" * 300, at, len(raw), version)
        except MalformedRequest:
            continue
        for topic in request.topics:
            for _, start, end in topic.partitions:
                assert (start, end) == (-1, -1) or at <= start <= end <= len(raw)


def test_unknown_tagged_fields_of_a_newer_client_are_stepped_over() -> None:
    tags = b"\2\x05\3abc\x80\1\0"  # tag 5 of three bytes, tag 128 of none
    name, records = b"\6topic", b"\6batch"
    topic = name + b"\2" + b"\0\0\0\1" + records + tags + tags
    body = b"\0" + b"\0\1" + b"\0\0\0\5" + b"\2" + topic + tags
    request = produce.decode_request(body, 0, len(body), 9)
    assert request.acks == 1
    ((_, _, [(partition, start, end)]),) = request.topics
    assert (partition, body[start:end]) == (1, b"batch")


def test_a_huge_count_is_refused_before_anything_is_made_of_it() -> None:
    body = b"\xff\xff" + b"\0\1" + b"\0\0\0\5" + b"\x7f\xff\xff\xff"
    with pytest.raises(MalformedRequest):
        produce.decode_request(body, 0, len(body), 3)
    body = b"\0" + b"\0\1" + b"\0\0\0\5" + b"\xff\xff\xff\xff\x0f"
    with pytest.raises(MalformedRequest):
        produce.decode_request(body, 0, len(body), 9)


def _body_9(name: bytes, partitions: list[bytes], transactional_id: bytes = b"\0") -> bytes:
    topic = uvarint(len(name) + 1) + name + uvarint(len(partitions) + 1) + b"".join(partitions) + b"\0"
    return transactional_id + b"\0\1" + b"\0\0\0\5" + b"\2" + topic + b"\0"


def test_the_tagged_fields_of_all_partitions_are_counted_together() -> None:
    half = MAX_TAGS // 2
    partition = b"\0\0\0\0" + b"\0" + uvarint(half) + b"\0\0" * half
    body = _body_9(b"t", [partition] * 2)
    assert len(produce.decode_request(body, 0, len(body), 9).topics[0].partitions) == 2
    body = _body_9(b"t", [partition] * 3)
    with pytest.raises(MalformedRequest, match="more tagged fields"):
        produce.decode_request(body, 0, len(body), 9)


def test_a_name_or_transactional_id_that_no_answer_could_repeat_is_malformed() -> None:
    partition = b"\0\0\0\0" + b"\0\0"
    longest = b"n" * MAX_STRING_BYTES
    for text, is_fine in ((longest, True), (longest + b"n", False)):
        for body in (
            _body_9(text, [partition]),
            _body_9(b"t", [partition], uvarint(len(text) + 1) + text),
        ):
            if is_fine:
                assert len(produce.decode_request(body, 0, len(body), 9).topics) == 1
            else:
                with pytest.raises(MalformedRequest):
                    produce.decode_request(body, 0, len(body), 9)
