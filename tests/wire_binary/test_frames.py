"""Frames of the binary protocol: what was captured reads as it was meant, and is written byte for byte."""

from __future__ import annotations

import struct

import pytest

from headrace.wire.binary.decoder import Decoder
from headrace.wire.binary.frame import Frame, MalformedFrame, Type, build, can_carry, encode, size_of
from tests.wire_binary import vectors

HELLO = {
    "topic": "my_topic",
    "client_id": "p1",
    "partition": "0",
    "created_at": "1755518400.5",
    "version": "1.0",
}


def decoded(data: bytes) -> list[Frame]:
    return list(Decoder().feed(data))


@pytest.mark.parametrize("vector", vectors.ALL.values(), ids=vectors.ALL.keys())
def test_every_captured_frame_is_written_again_byte_for_byte(vector: bytes) -> None:
    [frame] = decoded(vector)
    assert encode(*frame[:5]) == vector
    assert frame.size == len(vector)
    assert size_of(frame.properties, len(frame.body)) == len(vector)


def test_a_captured_publish_reads_as_it_was_meant() -> None:
    [frame] = decoded(vectors.PUBLISH)
    assert frame == Frame(Type.PUBLISH, 7, 1755518400500, HELLO, b"Hello, World!", len(vectors.PUBLISH))
    assert list(frame.properties) == list(HELLO)


def test_a_captured_request_is_built_from_its_parts() -> None:
    asked = {"topic": "my_topic", "partitions": "2", "retention_hours": "24"}
    assert build(Type.CREATE_TOPIC, 1, 1755518400500, asked) == vectors.CREATE_TOPIC
    asked = {"topic": "my_topic", "client_id": "c1", "partition": "0", "offset": "0", "auto_ack": "true"}
    assert build(Type.SUBSCRIBE, 1, 1755518400500, asked) == vectors.SUBSCRIBE


def test_the_layout_with_the_bodys_length_behind_the_properties_is_understood() -> None:
    head, block, body = vectors.PUBLISH[:28], vectors.PUBLISH[32:-13], vectors.PUBLISH[-13:]
    on_paper = head + block + struct.pack(">I", 13) + body
    assert len(on_paper) == len(vectors.PUBLISH)
    assert decoded(on_paper) == decoded(vectors.PUBLISH)
    mixed = vectors.CREATE_TOPIC + on_paper + vectors.SUBSCRIBE
    assert [frame.type for frame in decoded(mixed)] == [4, 7, 5]


def test_a_frame_without_created_at_gets_the_time_in_its_head() -> None:
    [frame] = decoded(encode(Type.PUBLISH, 1, 1755518400500, {"topic": "t"}, b"x"))
    assert list(frame.properties.items()) == [("topic", "t"), ("created_at", "1755518400.5"), ("version", "1.0")]
    [frame] = decoded(encode(Type.PUBLISH, 1, 7, {"created_at": "mine", "topic": "t"}))
    assert list(frame.properties.items()) == [("created_at", "mine"), ("topic", "t"), ("version", "1.0")]


def test_properties_split_at_the_first_equals_sign_and_what_has_none_is_passed_over() -> None:
    block = b"topic=a=b\0nonsense\0\0empty=\0=nameless\0topic=again\0open=end"
    head = struct.pack(">IIQQII", 32 + len(block), 7, 1, 0, len(block), 0)
    [frame] = decoded(head + block)
    assert frame.properties == {
        "topic": "again",
        "empty": "",
        "": "nameless",
        "open": "end",
        "created_at": "0.0",
        "version": "1.0",
    }
    assert next(iter(frame.properties)) == "topic"


def test_what_has_no_escaping_cannot_be_carried() -> None:
    assert can_carry("a", "b=c")
    assert not can_carry("a=b", "c")
    assert not can_carry("a", "b\0c")
    assert not can_carry("a\0", "b")


def head(total: int, type_: int = 7, properties: int = 0, body: int = 0) -> bytes:
    return struct.pack(">IIQQII", total, type_, 1, 0, properties, body)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (head(31), "a frame of 31 bytes"),
        (b"\0\0\0\0", "a frame of 0 bytes"),
        (b"GET / HTTP/1.1\r\n", "a frame of 1195725856 bytes"),
        (head(101), "a frame of 101 bytes: from 32 to 100"),
        (head(32, 0)[:8], "message type 0"),
        (head(32, 8)[:8], "message type 8"),
        (head(40, 7, 9)[:28], "9 bytes of properties do not fit in a frame of 40"),
        (head(40, 7, 4, 5) + bytes(8), "do not add up"),
        (head(32, 7, 0, 1), "do not add up"),
        (head(34, 7, 2, 0) + b"\xff\0", "not UTF-8"),
    ],
)
def test_what_is_no_frame_is_refused_as_soon_as_it_shows(data: bytes, why: str) -> None:
    with pytest.raises(MalformedFrame, match=why):
        list(Decoder(max_frame_bytes=100).feed(data))
    slowly = Decoder(max_frame_bytes=100)
    with pytest.raises(MalformedFrame, match=why):
        for byte in data:
            list(slowly.feed(bytes([byte])))


def test_nothing_of_what_was_fed_is_kept_but_copies() -> None:
    scratch = bytearray(vectors.PUBLISH + vectors.DATA[:50])
    decoder = Decoder()
    [first] = decoder.feed(memoryview(scratch))
    assert decoder.unfinished_bytes == 50
    scratch[:] = bytes(len(scratch))
    [second] = decoder.feed(vectors.DATA[50:])
    assert (first.body, second.body) == (b"Hello, World!", b"Hello, World!")
    assert decoder.unfinished_bytes == 0
