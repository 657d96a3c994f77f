"""Frames, headers and the atoms they are made of."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.kafka import frame, header, primitives
from headrace.wire.kafka.errors import InvalidRequest, MalformedRequest


@pytest.mark.parametrize("size", [-1, 0, 1, 9, frame.MAX_REQUEST_BYTES + 1, 0x7FFFFFFF, -(1 << 31)])
def test_a_frame_of_a_size_that_no_request_has_is_refused(size: int) -> None:
    with pytest.raises(MalformedRequest):
        frame.frame_size(struct.pack(">i", size), 0)


def test_a_frame_says_its_size() -> None:
    raw = struct.pack(">i", 10) + b"0123456789"
    assert frame.frame_size(b"xx" + raw, 2) == 10


@pytest.mark.parametrize(("api_key", "version"), [(0, 3), (0, 9), (3, 0), (18, 0), (18, 3), (18, 4), (60, 0)])
@pytest.mark.parametrize("client_id", [None, "", "kcat", "é"])
def test_a_header_reads_as_it_was_written(api_key: int, version: int, client_id: str | None) -> None:
    raw = header.request_header(api_key, version, -7, client_id)
    expected = header.RequestHeader(api_key, version, -7, client_id, len(raw) + 2)
    assert header.read_header(b"xx" + raw + b"body", 2, len(raw) + 6) == expected


def test_tagged_fields_of_a_header_are_stepped_over() -> None:
    raw = header.request_header(0, 9, 1, "c")[:-1] + b"\1\0\5hello" + b"body"
    assert raw[header.read_header(raw, 0, len(raw)).end :] == b"body"


@pytest.mark.parametrize("version", [3, 9])
def test_a_header_cut_anywhere_is_malformed(version: int) -> None:
    raw = header.request_header(0, version, 1, "client")
    for end in range(len(raw)):
        for buffer in (raw[:end], raw, raw[:end] + b"\xff" * 20):
            with pytest.raises(MalformedRequest):
                header.read_header(buffer, 0, end)


def test_a_client_id_that_is_no_text_or_of_negative_size_is_malformed() -> None:
    for raw in (struct.pack(">hhih", 0, 3, 1, 2) + b"\xff\xfe", struct.pack(">hhih", 0, 3, 1, -2) + b"  "):
        with pytest.raises(MalformedRequest):
            header.read_header(raw, 0, len(raw))


def test_an_unknown_api_still_has_a_header_that_can_be_read() -> None:
    raw = struct.pack(">hhih", 999, 5, 77, -1)
    assert header.read_header(raw, 0, len(raw))[:4] == (999, 5, 77, None)


@given(st.integers(0, (1 << 35) - 1))
def test_a_varint_reads_as_it_was_written(value: int) -> None:
    raw = primitives.uvarint(value)
    assert primitives.read_uvarint(raw + b"\xff", 0) == (value, len(raw))


def test_a_varint_without_an_end_is_malformed() -> None:
    with pytest.raises(MalformedRequest):
        primitives.read_uvarint(b"\xff" * 10, 0)


def test_a_reader_refuses_a_message_outside_of_its_buffer() -> None:
    for at, end in ((-1, 0), (2, 1), (0, 11)):
        with pytest.raises(MalformedRequest):
            primitives.Reader(b"0123456789", at, end, True)


def test_a_tagged_field_may_not_be_longer_than_it_says() -> None:
    reader = primitives.Reader(b"\1\0\2abcdefgh", 0, 11, True)
    with pytest.raises(MalformedRequest):
        for _ in reader.tags():
            reader.int64()


def test_a_message_has_a_limited_number_of_tagged_fields_in_all_its_sections_together() -> None:
    half = primitives.MAX_TAGS // 2
    section = primitives.uvarint(half) + b"\0\0" * half
    rest = primitives.uvarint(primitives.MAX_TAGS - 2 * half) + b"\0\0" * (primitives.MAX_TAGS - 2 * half)
    raw = section * 2 + rest + b"\1\0\0"
    reader = primitives.Reader(raw, 0, len(raw), True)
    reader.skip_tags()
    assert sum(1 for _ in reader.tags()) == half
    reader.skip_tags()
    with pytest.raises(MalformedRequest, match="more tagged fields"):
        reader.skip_tags()


def test_a_count_of_tagged_fields_over_the_limit_is_refused_before_they_are_walked() -> None:
    raw = primitives.uvarint(8) + b"\0\0" * 8
    assert primitives.skip_tags(raw, 0, len(raw), 10) == (len(raw), 2)
    assert primitives.skip_tags(raw, 0, len(raw), 8) == (len(raw), 0)
    with pytest.raises(MalformedRequest, match="more tagged fields"):
        primitives.skip_tags(raw, 0, len(raw), 7)


def test_a_header_has_few_tagged_fields() -> None:
    plain = header.request_header(0, 9, 1, "c")[:-1]
    for count, is_fine in ((header.MAX_HEADER_TAGS, True), (header.MAX_HEADER_TAGS + 1, False)):
        raw = plain + primitives.uvarint(count) + b"\0\0" * count
        if is_fine:
            assert header.read_header(raw, 0, len(raw)).end == len(raw)
        else:
            with pytest.raises(MalformedRequest, match="more tagged fields"):
                header.read_header(raw, 0, len(raw))


@pytest.mark.parametrize("flexible", [False, True])
def test_a_text_has_32767_bytes_at_most_in_either_encoding(flexible: bool) -> None:
    longest = "é" * (primitives.MAX_STRING_BYTES // 2) + "e"
    raw = primitives.string(longest, flexible)
    assert primitives.Reader(raw, 0, len(raw), flexible).string() == longest
    with pytest.raises(InvalidRequest):
        primitives.string(longest + "e", flexible)


def test_a_text_of_a_flexible_version_that_is_longer_is_malformed() -> None:
    raw = primitives.uvarint(primitives.MAX_STRING_BYTES + 2) + b"n" * (primitives.MAX_STRING_BYTES + 1)
    with pytest.raises(MalformedRequest, match="a text of 32768 bytes"):
        primitives.Reader(raw, 0, len(raw), True).nullable_string()


def test_noise_is_refused_or_read_but_raises_nothing_else() -> None:
    from headrace.wire.kafka import fetch, produce

    rng = random.Random(5)
    for _ in range(3000):
        noise = rng.choice((rng.randbytes(rng.randrange(80)), bytes(rng.choices((0, 1, 2, 255), k=rng.randrange(80)))))
        for decode, version in (
            (produce.decode_request, rng.randrange(3, 14)),
            (fetch.decode_request, rng.randrange(4, 19)),
        ):
            try:
                decode(noise, 0, len(noise), version)
            except MalformedRequest:
                continue
