"""The private request of streaming sinks: what is written reads back, and nothing else does."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.kafka import header, sink
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.sink import MAX_LEDGERS, SINK, Action, LedgerEntry, SinkRequest, SinkResponse

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TEXT = st.text(max_size=20)
REQUESTS = st.builds(
    SinkRequest,
    st.sampled_from(Action),
    query=TEXT,
    number=INT64,
    task=TEXT,
    timeout_ms=INT32,
    members=st.lists(st.tuples(TEXT, INT64, INT16), max_size=4),
)
RESPONSES = st.builds(
    SinkResponse,
    INT16,
    message=st.none() | TEXT,
    transactional_id=st.none() | TEXT,
    first=INT64,
    second=INT64,
    ledgers=st.lists(st.builds(LedgerEntry, TEXT, INT64, INT64, INT64, INT32), max_size=4),
)
OPEN = SinkRequest(Action.COMMIT, "spark:q", 41, "0.0", 60_000, [("spark:q#0.0", 7, 3), ("spark:q#1.0", 8, 4)])
ASKED = [(0, OPEN), (1, SinkRequest(Action.LIST, "spark:q")), (1, SinkRequest(Action.FORGET, "spark:q"))]
ENTRY = LedgerEntry("spark:q", 7, 41, 1_700_000_000_000, 2)
TOLD = [(0, SinkResponse(0, None, "spark:q#0.0", 7, 3)), (1, SinkResponse(5, "why", None, 1, 2, [ENTRY, ENTRY]))]


def body_of(question: bytes) -> bytes:
    raw = question[4:]
    return raw[header.read_header(raw, 0, len(raw)).end :]


def told(version: int, answer: SinkResponse) -> bytes:
    raw = sink.encode_response(version, 9, answer)[4:]
    correlation_id, at = header.read_response_header(raw, 0, len(raw), SINK, version)
    assert correlation_id == 9
    return raw[at:]


def asked(version: int, request: SinkRequest) -> bytes:
    return body_of(sink.encode_request(version, 9, "me", request))


@given(REQUESTS)
def test_a_request_reads_back(request: SinkRequest) -> None:
    raw = asked(1, request)
    assert sink.decode_request(b"xx" + raw + b"yy", 2, 2 + len(raw), 1) == request


@given(RESPONSES, st.sampled_from([0, 1]))
def test_an_answer_reads_back_and_version_0_has_no_ledgers(answer: SinkResponse, version: int) -> None:
    raw = told(version, answer)
    expected = answer if version else answer._replace(ledgers=())
    assert sink.decode_response(b"xx" + raw + b"yy", 2, 2 + len(raw), version) == expected


def test_version_0_is_as_it_always_was() -> None:
    """Tasks of another version of ours speak to this broker."""
    raw = struct.pack(">bh1sqh1sii", Action.OPEN, 1, b"q", 5, 1, b"t", 60, 0)
    assert asked(0, SinkRequest(Action.OPEN, "q", 5, "t", 60)) == raw
    assert told(0, SinkResponse(0, None, "q#t", 7, 3)) == struct.pack(">hhh3sqq", 0, -1, 3, b"q#t", 7, 3)


@pytest.mark.parametrize("action", [Action.LIST, Action.FORGET])
def test_version_0_has_no_actions_for_ledgers(action: Action) -> None:
    raw = asked(1, SinkRequest(action, "q"))
    with pytest.raises(MalformedRequest, match="version 0 has no action"):
        sink.decode_request(raw, 0, len(raw), 0)


@pytest.mark.parametrize(("version", "request_"), ASKED)
def test_every_prefix_of_a_request_is_malformed_and_so_is_what_comes_after(version: int, request_: SinkRequest) -> None:
    raw = asked(version, request_)
    for end in range(len(raw)):
        for buffer in (raw[:end], raw):
            with pytest.raises(MalformedRequest):
                sink.decode_request(buffer, 0, end, version)
    with pytest.raises(MalformedRequest):
        sink.decode_request(raw + b"\0", 0, len(raw) + 1, version)


@pytest.mark.parametrize(("version", "answer"), TOLD)
def test_every_prefix_of_an_answer_is_malformed_and_so_is_what_comes_after(version: int, answer: SinkResponse) -> None:
    raw = told(version, answer)
    for end in range(len(raw)):
        for buffer in (raw[:end], raw):
            with pytest.raises(MalformedRequest):
                sink.decode_response(buffer, 0, end, version)
    with pytest.raises(MalformedRequest):
        sink.decode_response(raw + b"\0", 0, len(raw) + 1, version)


def test_flipped_bytes_are_read_as_something_or_refused_and_never_anything_else() -> None:
    chance = random.Random(5)
    wholes = [(version, asked(version, one), sink.decode_request) for version, one in ASKED]
    wholes += [(version, told(version, one), sink.decode_response) for version, one in TOLD]  # type: ignore[misc]
    for version, raw, decode in wholes:
        for at in range(len(raw)):
            for _ in range(8):
                bad = bytearray(raw)
                bad[at] ^= chance.randrange(1, 256)
                try:
                    decode(bad, 0, len(bad), version)
                except MalformedRequest:
                    continue


def test_an_answer_has_no_more_ledgers_than_a_page() -> None:
    full = told(1, SinkResponse(0, ledgers=[ENTRY] * MAX_LEDGERS))
    assert len(sink.decode_response(full, 0, len(full), 1).ledgers) == MAX_LEDGERS
    over = told(1, SinkResponse(0, ledgers=[ENTRY] * (MAX_LEDGERS + 1)))
    with pytest.raises(MalformedRequest, match="more array elements"):
        sink.decode_response(over, 0, len(over), 1)
    for count in (-2, -1, 1 << 30):
        lies = told(1, SinkResponse(0))[:-4] + struct.pack(">i", count)
        with pytest.raises(MalformedRequest):
            sink.decode_response(lies, 0, len(lies), 1)
