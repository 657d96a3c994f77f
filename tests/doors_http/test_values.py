"""Records as JSON and back: what was published here comes back as it was, and what others wrote is shown sensibly."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.doors.http.values import headers_of, json_text, shown
from headrace.errors import InvalidRecord
from headrace.records.record import Record

TEXT = st.text(st.characters(codec="utf-8"), max_size=10)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


def as_read(record: Record) -> Any:
    """As a client parses what is sent."""
    return json.loads(msgspec.json.encode(shown(record)))


@given(VALUES, st.dictionaries(TEXT.filter(lambda name: name != "headrace-json"), VALUES, max_size=4))
def test_what_was_published_comes_back_as_it_was(value: Any, headers: dict[str, Any]) -> None:
    record = Record(b"k", json_text(json.dumps(value).encode()), headers_of(headers))
    found = as_read(record)
    assert (found["value"], found["headers"]) == (value, headers)


@given(st.binary(max_size=20))
def test_any_bytes_can_be_shown_and_told_from_text(raw: bytes) -> None:
    found = as_read(Record(raw, raw, (("h", raw),)))
    for shown_bytes in (found["key"], found["headers"]["h"]):
        if isinstance(shown_bytes, str):
            assert shown_bytes.encode() == raw
        else:
            assert base64.b64decode(shown_bytes["base64"]) == raw


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (None, None),
        (b"", ""),
        (b"hello", "hello"),
        (b"123", 123),
        (b'{"a": [1,\n 2]}', {"a": [1, 2]}),
        (b"\xff\xfe", {"base64": "//4="}),
        (b'{"a":', '{"a":'),
        (b"1e999", "1e999"),
        (b"[" * 2000 + b"]" * 2000, "[" * 2000 + "]" * 2000),
    ],
)
def test_values_of_other_doors(raw: bytes | None, value: Any) -> None:
    encoded = msgspec.json.encode(shown(Record(value=raw)))
    assert json.loads(encoded)["value"] == value
    assert b"\n" not in encoded


def test_headers_that_repeat_are_a_list_and_null_is_null() -> None:
    found = as_read(Record(headers=(("a", b"1"), ("b", None), ("a", b"\xff"))))
    assert found["headers"] == {"a": ["1", {"base64": "/w=="}], "b": None}


def test_other_doors_read_a_text_header_as_text_and_a_json_value_without_spaces() -> None:
    assert headers_of({"a": "1", "b": None}) == (("a", b"1"), ("b", None))
    assert json_text(b'{ "a" : [ 1, 2 ] }') == b'{"a":[1,2]}'


@pytest.mark.parametrize("raw", [b"", b"NaN", b'"\\ud800"', b'"\xff"', b"1e999", b"[" * 5000 + b"]" * 5000])
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRecord, match="no JSON"):
        json_text(raw)


def test_a_marker_that_says_nonsense_is_not_believed() -> None:
    assert as_read(Record(headers=(("a", b"1"), ("headrace-json", b"{"))))["headers"] == {"a": "1"}
