"""The json protocol without a socket: documents and lines in any pieces, requests, values, replies."""

from __future__ import annotations

import contextlib
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.json import replies, requests, values
from headrace.wire.json.framing import Broken, Document, Event, Requests
from headrace.wire.json.requests import MAX_DEPTH, Consume, CreateTopic, Publish, Refused, Request

LIMIT = 200
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
BITS = st.sampled_from(
    [b"\n", b"{", b"}", b"[", b"]", b'"', b"\\", b'\\"', b" ", b"a", b'{"a": "}\\"{"}', b'{"b": [1, {}]}', b"x" * 90]
)


def fed(data: bytes, cuts: list[int], limit: int = LIMIT) -> list[Event]:
    reader, found, at = Requests(limit), [], 0
    for cut in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        found += reader.take(memoryview(data)[at:cut])
        at = max(at, cut)
        assert reader.unfinished_bytes <= limit
    return found + reader.end()


@given(st.lists(BITS), st.lists(st.integers(0, 1000)))
@settings(max_examples=400, deadline=None)
def test_whole_input_and_any_pieces_give_the_same_requests(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    whole = fed(data, [])
    assert fed(data, cuts) == whole
    assert fed(data, list(range(len(data)))) == whole


@given(st.dictionaries(st.text(), JSON, max_size=5), st.integers(0, 3), st.binary())
@settings(deadline=None)
def test_a_document_is_whole_where_its_bracket_closes(document: dict[str, object], spaces: int, behind: bytes) -> None:
    data = json.dumps(document).encode()
    assert fed(b" " * spaces + data + behind, list(range(50)), 1 << 20) == [Document(data)]
    lines = b"\n" + data + b"\r\n\n" + data
    assert fed(lines, list(range(50)), 1 << 20) == [Document(data + b"\r"), Document(data)]


def test_what_does_not_begin_an_object_is_refused_at_once() -> None:
    for data in (b"[1]", b"x", b'"text"', b"12", b"\xff", b"  \t null"):
        assert fed(data, [1]) == [Broken("a request is a JSON object")]
    assert fed(b"   ", []) == fed(b"", []) == fed(b"\n\n \n", []) == []


def test_what_ends_before_it_is_whole_is_refused() -> None:
    assert fed(b'{"type": "pub', []) == [Broken("the request ends before its JSON is whole")]


def test_size_is_bounded_in_both_ways_to_send() -> None:
    fits = b'{"a": "' + b"x" * (LIMIT - 9) + b'"}'
    over = fits[:-2] + b'x"}'
    too_large = Broken(f"the request is over the limit of {LIMIT} bytes")
    assert fed(fits, []) == fed(b"\n" + fits, []) == [Document(fits)]
    assert fed(over, [100]) == fed(b"\n" + over + b"\n{}\n", [100]) == [too_large]
    assert fed(b"\n{}\n" + over, []) == [Document(b"{}"), too_large]


def test_brackets_in_brackets_are_bounded_and_those_in_text_do_not_count() -> None:
    deep = b'{"a": ' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}"
    assert fed(deep, [], 1 << 20) == fed(deep, list(range(2000)), 1 << 20) == [Document(deep)]
    assert requests.parse(deep) == Refused("the request is not JSON: it has more than 500 brackets in brackets")
    for good in (
        b'{"payload": ' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}",
        b'{"payload": "' + b"[{" * 600 + b'"}',
        b'{"payload": [' + b"[]," * 600 + b"1]}",
    ):
        assert requests.parse(good) == Refused("Unknown request type")
        assert json.loads(values.shown(values.value_of(values.loads(good)))) == json.loads(good)


@given(st.lists(BITS), st.lists(st.integers(0, 1000)))
@settings(max_examples=400, deadline=None)
def test_the_end_is_where_a_reader_of_bytes_finds_it(parts: list[bytes], cuts: list[int]) -> None:
    """A backslash outside of text hides a quote too: no JSON has one there."""
    data = b"{" + b"".join(parts)
    depth, in_text, escaped, end = 0, False, False, None
    for at, byte in enumerate(data):
        if escaped and byte in b'"\\':
            escaped = False
            continue
        escaped = byte == 0x5C
        if byte == 0x22:
            in_text = not in_text
        elif not in_text and byte in b"{[}]":
            depth += 1 if byte in b"{[" else -1
            if not depth:
                end = at + 1
                break
    expected = [Document(data[:end])] if end is not None else [Broken("the request ends before its JSON is whole")]
    assert fed(data, cuts, 1 << 20) == expected


def test_a_large_document_in_small_pieces_costs_no_more_than_its_size() -> None:
    data = b'{"a": "' + b"x" * 1_000_000 + b'"}'
    reader = Requests(1 << 20)
    found = [event for at in range(0, len(data), 7) for event in reader.take(data[at : at + 7])]
    assert found == [Document(data)]


@pytest.mark.parametrize(
    ("document", "request_"),
    [
        (
            '{"type": "publish", "topic_name": "t", "partition": 0, "payload": "Hello"}',
            Publish("t", 0, "0", b'"Hello"'),
        ),
        ('{"type": "publish", "topic_name": "t", "payload": null}', Publish("t", 0, "0", b"null")),
        (
            '{"type": "publish", "topic_name": "t", "partition": "01", "payload": 0, "acks": "all"}',
            Publish("t", 1, "01", b"0", "all"),
        ),
        (
            '{"type": "replicate", "topic_name": "t", "partition": 2, "payload": [], "acks": 2}',
            Publish("t", 2, "2", b"[]", 2, True),
        ),
        ('{"type": "consume", "topic_name": "t", "partition": 0, "payload": null}', Consume("t", 0, 0)),
        ('{"type": "consume", "topic_name": "t", "partition": 0, "offset": -1}', Consume("t", 0, -1)),
        ('{"type": "consume", "topic_name": "t", "with_offset": true}', Consume("t", 0, 0, True)),
        ('{"type": "consume", "topic_name": "t", "with_offset": 1}', Refused("with_offset is true or false")),
        ('{"type": "create_topic", "topic_name": "t", "partition": 3}', CreateTopic("t", 3)),
        ('{"type": "create_topic", "topic_name": "t"}', CreateTopic("t", 1)),
        ('{"type": "subscribe"}', Refused("Unknown request type")),
        ("{}", Refused("Unknown request type")),
        ('{"type": ["publish"]}', Refused("Unknown request type")),
        ('{"type": "publish", "partition": 0, "payload": 1}', Refused("topic_name is the name of a topic")),
        ('{"type": "consume", "topic_name": 5}', Refused("topic_name is the name of a topic")),
        (
            '{"type": "publish", "topic_name": "t"}',
            Refused("there is no payload; null, false, 0 and empty ones are payloads like any other"),
        ),
        *(
            (
                f'{{"type": "publish", "topic_name": "t", "payload": 1, "partition": {bad}}}',
                Refused("partition is a whole number from 0 on"),
            )
            for bad in ("-1", "null", "true", "1.0", '"x"', '"٣"', "[]", "99999999999", '"99999999999999999999"')
        ),
        (
            '{"type": "publish", "topic_name": "t", "payload": 1, "acks": 1.5}',
            Refused('acks is 0, 1, a number of replicas or "all"'),
        ),
        (
            '{"type": "consume", "topic_name": "t", "offset": "0"}',
            Refused("offset is a whole number; less than 0 counts from the end"),
        ),
        (
            '{"type": "create_topic", "topic_name": "t", "partition": 0}',
            Refused("partition is the number of partitions, at least 1"),
        ),
        ("[]", Refused("a request is a JSON object")),
    ],
)
def test_every_request_is_read_or_refused_in_words(document: str, request_: Request) -> None:
    assert requests.parse(document.encode()) == request_


@pytest.mark.parametrize(
    "document", [b"{", b'{"a": NaN}', b'{"a": -Infinity}', b"\xff", b'{"a": ' + b"9" * 5000 + b"}", b"[" * 100_000]
)
def test_what_is_not_json_is_refused_and_never_fails(document: bytes) -> None:
    found = requests.parse(document)
    assert isinstance(found, Refused) and found.why.startswith("the request is not JSON: ")


@given(JSON)
def test_a_payload_reads_back_unchanged(payload: values.Json) -> None:
    kept = values.value_of(payload)
    assert replies.consumed(kept) == json.dumps({"status": "success", "message": payload}).encode()


def test_half_a_surrogate_pair_is_kept_by_its_escape() -> None:
    assert values.value_of("\ud800") == b'"\\ud800"'
    assert values.shown(values.value_of("\ud800")) == b'"\\ud800"'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b"12", 12),
        (b"plain text", "plain text"),
        (b"NaN", "NaN"),
        (b"", ""),
        (None, None),
        (b"\xff\x00", {"base64": "/wA="}),
        (b"[" * 100_000, "[" * 100_000),
        (b"9" * 5000, "9" * 5000),
        (b"[" * 900 + b"]" * 900, None),
    ],
)
def test_values_of_other_protocols_are_json_or_text_or_base64(value: bytes | None, message: object) -> None:
    found = json.loads(replies.consumed(value))
    assert found["status"] == "success"
    if value is not None and len(value) == 1800:
        assert found["message"] == json.loads(value) or found["message"] == value.decode()
    else:
        assert found["message"] == message


@given(JSON, st.booleans())
@settings(deadline=None)
def test_a_large_request_is_read_as_a_small_one(payload: values.Json, is_ascii: bool) -> None:
    pad = " " * values.LARGE_BYTES
    fields = {"type": "publish", "topic_name": "t", "partition": "1", "payload": payload, "acks": "all", "other": [{}]}
    text = json.dumps(fields, ensure_ascii=is_ascii)
    with contextlib.suppress(UnicodeEncodeError):
        assert requests.parse((text[:-1] + pad + "}").encode()) == requests.parse(text.encode())


def test_a_large_payload_is_checked_and_kept_as_it_was_written() -> None:
    text = rb'[{"a":"\u00e9"},{"b":"' + "ü".encode() + b'"},' + b"{}," * 50_000 + b"1]"
    whole = b'{"type": "publish", "topic_name": "t", "payload": %b}'
    assert requests.parse(whole % text) == Publish("t", 0, "0", text)
    assert replies.consumed(text) == b'{"status": "success", "message": %b}' % text.replace("ü".encode(), rb"\u00fc")
    large = '"' + "é" * values.LARGE_BYTES + '"'
    found = requests.parse(whole % large.encode())
    assert isinstance(found, Publish) and found.value == large.encode()
    assert requests.parse(whole % json.dumps(json.loads(large)).encode()) == found
    assert json.loads(replies.consumed(found.value))["message"] == json.loads(large)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b'{"payload": [%b}', "the request is not JSON: "),
        (b'{"payload": ["\xff", %b1]}', "the request is not JSON: it is not UTF-8 text"),
        (b'{"payload": [NaN, %b1]}', "the request is not JSON: "),
        (b'{"type": [%b1]}', "the request is not JSON: type has "),
        (b"[%b1]", "a request is a JSON object"),
        (b'{"type": "publish", "topic_name": "t", "other": [%b1]}', "there is no payload"),
        (b'{"type": "publish", "topic_name": 5, "payload": [%b1]}', "topic_name is the name of a topic"),
        (b'{"type": "other", "payload": [%b1]}', "Unknown request type"),
    ],
)
def test_a_large_request_that_is_none_is_refused(document: bytes, why: str) -> None:
    found = requests.parse(document % (b"{}, " * 50_000))
    assert isinstance(found, Refused) and found.why.startswith(why)


@pytest.mark.parametrize(
    "value", [b"x" * 200_000, b"[" * 200_000, "é".encode() * 100_000, b'{"a": "' + b"\n" * 200_000]
)
def test_a_large_value_that_is_not_json_is_text(value: bytes) -> None:
    assert json.loads(replies.consumed(value))["message"] == value.decode()


def test_replies_are_read_back_by_the_client() -> None:
    assert replies.parse(replies.failed("why")) == (False, "why")
    assert replies.parse(replies.consumed(b"[1]")) == (True, [1])
    for nonsense in (b"[]", b"{}", b"x"):
        with pytest.raises(ValueError):
            replies.parse(nonsense)


def test_garbage_in_random_pieces_never_fails() -> None:
    chance = random.Random(5)
    alphabet = b'{}[]"\\ \n0a'
    for _ in range(300):
        data = bytes(chance.choice(alphabet) for _ in range(chance.randrange(400)))
        for event in fed(data, [chance.randrange(400) for _ in range(9)]):
            if isinstance(event, Document):
                requests.parse(event.data)
