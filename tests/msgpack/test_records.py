"""Records of any door become deliveries, by both kernels alike."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.records import codec
from headrace.records.header import HEADER_BYTES
from headrace.records.record import Record
from headrace.wire.msgpack import twin
from headrace.wire.msgpack.deliveries import DeliveryReader
from tests.msgpack.values import native, values
from tests.records.kernels import contents, headers, outcome

RECORDS = [twin.records] if native is None else [twin.records, native.msgpack_records]
DELIVERIES = [twin.deliveries] if native is None else [twin.deliveries, native.msgpack_deliveries]
MSGPACK = (("content-type", b"application/msgpack"),)

Kernel = Callable[..., Any]
known = st.builds(Record, contents, values.map(lambda value: value[0]), st.just(MSGPACK), st.just(5))
wrong = st.builds(Record, contents, contents, st.just((("x", None), *MSGPACK, *MSGPACK)), st.just(5))
other = st.builds(Record, contents, contents | st.text().map(str.encode), headers, st.just(5))
some_records = st.lists(known | wrong | other, min_size=1, max_size=8)


def body_of(records: list[Record]) -> bytes:
    return bytes(codec.encode(records)[HEADER_BYTES:])


def meaning(record: Record) -> bytes:
    """By the rules, with another's codec."""
    if record.value is None:
        return b"\xc0"
    if MSGPACK[0] in record.headers and (found := twin.smallest(record.value)) is not None:
        return found
    try:
        return msgspec.msgpack.encode(record.value.decode())
    except UnicodeDecodeError:
        return msgspec.msgpack.encode(record.value)


@pytest.mark.parametrize("kernel", RECORDS)
@given(some_records, st.integers(0, 10))
def test_records_are_delivered_by_the_rules(kernel: Kernel, given: list[Record], first: int) -> None:
    wanted = given[max(0, first - 3) :]
    start = b"\x92" + msgspec.msgpack.encode("a/é")
    found, count = kernel("a/é", body_of(given), len(given), 3, 5, first)
    assert count == len(wanted)
    assert found == b"".join(start + meaning(record) for record in wanted)


@pytest.mark.skipif(native is None, reason="there is only one kernel here")
@given(some_records, st.integers(0, 400), st.integers(0, 255), st.integers(-1, 9))
def test_both_kernels_say_the_same_of_damaged_records(given: list[Record], at: int, byte: int, count: int) -> None:
    body = bytearray(body_of(given))
    body[at % len(body)] = byte
    assert native is not None
    ours = outcome(twin.records, "t", bytes(body), count, 0, 5, 0)
    assert ours == outcome(native.msgpack_records, "t", bytes(body), count, 0, 5, 0)


@pytest.mark.parametrize("kernel", DELIVERIES)
@given(st.lists(st.tuples(st.text(max_size=40), values), max_size=6), st.lists(st.integers(0, 999), max_size=5))
def test_deliveries_are_read_in_any_pieces(kernel: Kernel, sent: list[Any], places: list[int]) -> None:
    data = b"".join(b"\x92" + msgspec.msgpack.encode(topic) + value[1] for topic, value in sent)
    marks = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    found, left, state = [], b"", ()
    for begin, end in pairwise(marks):
        left += data[begin:end]
        some, taken, state, fault = kernel(left, state, 10_000)
        assert fault is None
        found += some
        left = left[taken:]
    assert found == [(topic, value[1]) for topic, value in sent]
    assert not left


@pytest.mark.parametrize("kernel", DELIVERIES)
@pytest.mark.parametrize(
    "wrong", [b"\x01", b"\x91\xa1a", b"\x93\xa1a\x01\x02", b"\x92\x01\x02", b"\xc1", b"\x92\xa1\xff\x01"]
)
def test_what_is_no_delivery_ends_the_reading(kernel: Kernel, wrong: bytes) -> None:
    found, taken, state, fault = kernel(b"\x92\xa1a\x01" + wrong, (), 10_000)
    assert (found, taken, state) == ([("a", b"\x01")], 4, ())
    assert fault


def test_a_reader_that_met_a_fault_reads_no_more() -> None:
    reader = DeliveryReader(1000)
    assert reader.receive(b"\x92\xa1a\x01\x00") == [("a", b"\x01")]
    assert reader.fault == twin.NOT_A_DELIVERY
    assert reader.receive(b"\x92\xa1a\x01") == []
