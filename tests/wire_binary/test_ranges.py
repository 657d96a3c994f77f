"""Ranges of the binary protocol without a socket: requests, pages, whole and byte by byte."""

from __future__ import annotations

import pytest

from headrace.compat import binary_values as values
from headrace.wire.binary.decoder import Decoder
from headrace.wire.binary.frame import Frame
from headrace.wire.binary.ranges import NAMES, asked, is_range
from headrace.wire.ranges import Bounds, Place, Range
from tests.doors_binary import raw
from tests.wire_binary import vectors

WHOLE: dict[str, str] = {
    "topic": "t",
    "client_id": "c",
    "partition": "1",
    "offset": "5",
    "to": "9",
    "since": "1700000000000",
    "until": "2023-11-14T22:13:21Z",
    "limit": "7",
    "page": "1-6",
}


def fed(data: bytes, size: int) -> list[Frame]:
    decoder = Decoder()
    return [frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_a_request_says_the_same_in_whatever_pieces_it_comes(size: int) -> None:
    data = raw.frame(raw.SUBSCRIBE, 1, WHOLE)
    for whole in (data, raw.as_on_paper(data)):
        [frame] = fed(whole, size)
        assert is_range(frame.properties)
        bounds = Bounds(5, 9, 1_700_000_000_000, 1_700_000_001_000)
        assert asked("t", frame.properties) == Range("t", 1, bounds, 7, Place(1, 6))


@pytest.mark.parametrize("vector", vectors.ALL.values(), ids=vectors.ALL.keys())
def test_nothing_that_clients_of_the_protocol_send_is_a_range(vector: bytes) -> None:
    [frame] = Decoder().feed(vector)
    assert not is_range(frame.properties)


@pytest.mark.parametrize("name", NAMES)
def test_each_of_the_properties_alone_asks_for_a_range(name: str) -> None:
    value = {"page": "0-0"}.get(name, "1")
    assert is_range({"topic": "t", name: value})
    assert asked("t", {name: value}).partition is None


def test_the_offset_that_clients_always_send_is_the_start_of_any_partition() -> None:
    assert not asked("t", {"offset": "0", "limit": "1"}).has_offsets
    assert asked("t", {"offset": "1", "limit": "1"}).has_offsets
    assert asked("t", {"to": "0"}).has_offsets
    assert asked("t", {"offset": "0", "last": "3"}) == Range("t", last=3)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"limit": "x"}, "invalid literal for int() with base 10: 'x'"),
        ({"limit": ""}, "invalid literal for int() with base 10: ''"),
        ({"limit": "0"}, "Invalid limit 0"),
        ({"last": "-1"}, "Invalid last -1"),
        ({"to": "-1"}, "Invalid to -1"),
        ({"offset": "-1", "limit": "1"}, "Invalid offset -1"),
        ({"partition": "-1", "limit": "1"}, "Invalid partition -1"),
        ({"since": "soon"}, "since is milliseconds since 1970 or a time like 2026-01-31T12:00:00Z"),
        ({"until": "1e3"}, "until is milliseconds since 1970 or a time like 2026-01-31T12:00:00Z"),
        ({"page": "next"}, "page is what a reply before gave as next_page"),
        ({"last": "1", "to": "5"}, "'last' is asked for without 'to'"),
        ({"last": "1", "offset": "5"}, "'last' is asked for without 'offset'"),
        ({"limit": "1", "group": "g"}, "A range is read without 'group'"),
    ],
)
def test_what_cannot_be_meant_is_told(properties: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError) as refused:
        asked("t", properties)
    assert str(refused.value) == text


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_page_is_an_ack_whose_body_is_messages(size: int) -> None:
    first = raw.frame(raw.DATA, 3, {"topic": "t", "partition": "0", "color": "red"}, b"one", 1_700_000_000_000)
    second = raw.frame(raw.DATA, 9, {"topic": "t", "partition": "2"}, b"\x00\xff", 1_700_000_000_001)
    said = {"status": "success", "topic": "t", "count": "2", "next_page": "2-10"}
    [frame] = fed(raw.frame(raw.ACK, 5, said, first + second), size)
    page = values.paged("t", frame)
    assert page.next_page == "2-10"
    assert [(*one[:4], one.body) for one in page.messages] == [
        ("t", 0, 3, 1_700_000_000_000, b"one"),
        ("t", 2, 9, 1_700_000_000_001, b"\x00\xff"),
    ]
    assert page.messages[0].properties["color"] == "red"
    [last] = fed(raw.frame(raw.ACK, 5, {"status": "success", "topic": "t", "count": "0"}), size)
    assert values.paged("t", last) == ([], None)
