"""A msgpack value where JSON is shown: itself, never its bytes read as text."""

from __future__ import annotations

import json

import pytest

from headrace.records.record import Record
from headrace.wire import content
from headrace.wire.msgpack import twin


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x31", 49),
        (b"\x07", 7),
        (b"\xa3foo", "foo"),
        (b"\xc3", True),
        (b"\xc0", None),
        (b"\xcb\x3f\xe0\0\0\0\0\0\0", 0.5),
        (b"\x82\xa1a\x01\x02\xa1b", {"a": 1, "2": "b"}),
        (b"\xc4\x02\x00\xff", {"base64": "AP8="}),
        (b"\x91\xc4\x01\xff", [{"base64": "/w=="}]),
        (b"\xcb\x7f\xf8\0\0\0\0\0\0", {"base64": "y3/4AAAAAAAA"}),  # not a number
        (b"\xd4\x05\x00", {"base64": "1AUA"}),  # an extension
        (b"\x91", {"base64": "kQ=="}),  # cut off
    ],
)
def test_it_is_shown_as_the_value_that_it_is(data: bytes, shown: object) -> None:
    record = Record(value=data, headers=(content.MSGPACK,))
    assert json.loads(content.value_of(record) or b"") == shown


def test_what_no_header_calls_msgpack_stays() -> None:
    assert content.value_of(Record(value=b"\x31")) == b"\x31"
    assert content.value_of(Record(value=None, headers=(content.MSGPACK,))) is None


def test_the_header_is_the_one_that_the_door_writes() -> None:
    assert twin.HEADERS == (content.MSGPACK,)
