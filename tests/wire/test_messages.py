"""Reading by kio's schemas: kio's own writer is the judge."""

from __future__ import annotations

import pytest
from kio.index import api_key_map, schema_name_map

from headrace.wire.kafka import header, messages
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.primitives import MAX_ASKED, MAX_ELEMENTS
from tests.wire import oracle

MESSAGES = [
    (key, version, side)
    for key, name in sorted(api_key_map.items())
    for version in sorted(schema_name_map[name])
    for side in ("request", "response")
]
OURS = [(10, v) for v in range(7)] + [(19, v) for v in range(2, 8)] + [(20, v) for v in range(1, 7)]
OURS += [(23, v) for v in range(2, 5)] + [(21, v) for v in range(3)] + [(32, v) for v in range(1, 5)]
OURS += [(33, v) for v in range(3)] + [(34, v) for v in (1, 2)] + [(35, v) for v in range(1, 6)]
OURS += [(37, v) for v in range(4)] + [(43, v) for v in range(3)] + [(44, v) for v in (0, 1)]
OURS += [(45, v) for v in (0, 1)] + [(46, 0)] + [(55, v) for v in range(3)] + [(57, v) for v in range(3)]
OURS += [(60, v) for v in range(3)] + [(61, 0), (64, 0), (74, 1), (75, 0)]


@pytest.mark.parametrize("api_key", sorted(api_key_map))
def test_every_message_of_kafka_reads_as_kio_wrote_it(api_key: int) -> None:
    for key, version, side in MESSAGES:
        if key == api_key:
            decode = messages.decode if side == "request" else messages.decode_response
            for entity in oracle.entities(oracle.schema(key, version, side), version, 3):
                raw = oracle.written(entity)
                assert decode(key, version, b"before" + raw + b"after", 6, 6 + len(raw)) == entity


@pytest.mark.parametrize(("api_key", "version", "side"), MESSAGES)
def test_headers_are_flexible_where_kio_says_so(api_key: int, version: int, side: str) -> None:
    kind = oracle.schema(api_key, version, side)
    flexible = header.is_flexible(api_key, version)
    if side == "request":
        assert flexible == kind.__header_schema__.__module__.endswith("v2.header")
    else:
        has_tags = kind.__header_schema__.__module__.endswith("v1.header")
        assert has_tags == (flexible and api_key != header.API_VERSIONS)


@pytest.mark.parametrize(("api_key", "version"), OURS)
def test_a_request_cut_anywhere_or_with_a_byte_too_many_is_malformed(api_key: int, version: int) -> None:
    for entity in oracle.entities(oracle.schema(api_key, version, "request"), 7, 4):
        raw = oracle.written(entity)
        for end in range(0, len(raw), max(1, len(raw) // 200)):
            for buffer in (raw[:end], raw, raw[:end] + b"\xff" * 32):
                with pytest.raises(MalformedRequest):
                    messages.decode(api_key, version, buffer, 0, end)
        with pytest.raises(MalformedRequest):
            messages.decode(api_key, version, raw + b"\0", 0, len(raw) + 1)


@pytest.mark.parametrize(("api_key", "version"), OURS)
def test_a_flipped_bit_gives_another_request_or_a_refusal(api_key: int, version: int) -> None:
    for entity in oracle.entities(oracle.schema(api_key, version, "request"), 8, 4):
        raw = oracle.written(entity)
        for bit in range(0, len(raw) * 8, max(1, len(raw) // 40)):
            buffer = bytearray(raw)
            buffer[bit // 8] ^= 1 << bit % 8
            try:
                messages.decode(api_key, version, buffer, 0, len(raw))
            except MalformedRequest:
                continue


def test_unknown_tagged_fields_are_stepped_over_at_every_level() -> None:
    tags = b"\2\x05\3abc\x80\1\0"
    topic = b"\2t" + b"\0\0\0\1" + b"\0\1" + b"\1" + b"\2" + b"\2k\2v" + tags + tags
    raw = b"\2" + topic + b"\0\0\0\x05" + b"\1" + tags
    request = messages.decode(header.CREATE_TOPICS, 7, raw, 0, len(raw))
    assert (request.topics[0].name, request.topics[0].configs[0].value) == ("t", "v")
    assert request.validate_only is True


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xff\xff\x7f"])
def test_a_huge_count_is_refused_before_anything_is_made_of_it(count: bytes) -> None:
    with pytest.raises(MalformedRequest):
        messages.decode(header.CREATE_TOPICS, 7, count, 0, len(count))


def test_a_message_has_a_limited_number_of_elements() -> None:
    int32 = b"\0\0\0\1"
    for decode, most, before, one, after in (
        (messages.decode, MAX_ASKED, b"", b"\0\0", int32),
        (messages.decode_response, MAX_ELEMENTS, int32, b"\0\0\0\0", b""),
    ):
        raw = before + most.to_bytes(4) + one * most + after
        decode(header.DELETE_TOPICS, 1, raw, 0, len(raw))
        raw = before + (most + 1).to_bytes(4) + one * (most + 1) + after
        with pytest.raises(MalformedRequest, match="more array elements"):
            decode(header.DELETE_TOPICS, 1, raw, 0, len(raw))


def test_an_answer_and_a_request_are_whole_frames() -> None:
    (entity,) = oracle.entities(oracle.schema(header.CREATE_TOPICS, 7, "request"), 1, 1)
    raw = messages.encode_request(entity, 5, "me")
    head = header.read_header(raw, 4, len(raw))
    assert head[:4] == (header.CREATE_TOPICS, 7, 5, "me")
    assert messages.decode(header.CREATE_TOPICS, 7, raw, head.end, len(raw)) == entity
    (entity,) = oracle.entities(oracle.schema(header.CREATE_TOPICS, 7, "response"), 1, 1)
    raw = messages.encode(entity, 5)
    correlation_id, at = header.read_response_header(raw, 4, len(raw), header.CREATE_TOPICS, 7)
    assert correlation_id == 5
    assert messages.decode_response(header.CREATE_TOPICS, 7, raw, at, len(raw)) == entity
