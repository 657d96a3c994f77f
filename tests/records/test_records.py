"""Every kernel: the records inside a batch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptBatch, InvalidTimestamp
from headrace.records.record import Record
from headrace.records.twin import varint
from tests.records.kernels import KERNELS, name, numbered, runs_of_records

pytestmark = pytest.mark.parametrize("kernel", KERNELS, ids=name)


# length 12, attributes, timestamp delta 3, offset delta 0, key "k", value "hi", one header "h" = null
GOLDEN = bytes([24, 0, 6, 0, 2, 0x6B, 4, 0x68, 0x69, 2, 2, 0x68, 1])


def decode(kernel: Any, body: bytes, count: int = 1) -> list[Record]:
    return kernel.decode_records(body, count, 0, 0, None)


def one(*fields: int | bytes) -> bytes:
    """A record of numbers as varints and bytes as they are, with its length in front."""
    out = bytearray()
    for field in fields:
        varint.write(out, field) if isinstance(field, int) else out.extend(field)
    length = bytearray()
    varint.write(length, len(out))
    return bytes(length + out)


def test_a_record_spelled_out_byte_by_byte_reads_and_writes_so(kernel: Any) -> None:
    record = Record(b"k", b"hi", (("h", None),), 103, 7)
    assert kernel.decode_records(GOLDEN, 1, 7, 100, None) == [record]
    first = Record(None, None, (), 100)
    body, base, most = kernel.encode_records([first, record])
    assert (base, most) == (100, 103)
    assert body[:61] == bytes(61)
    assert body[61:] == bytes([12, 0, 0, 0, 1, 1, 0]) + GOLDEN[:3] + b"\x02" + GOLDEN[4:]


@given(runs_of_records)
def test_records_read_back_as_they_were_written(kernel: Any, given_records: list[Record]) -> None:
    body, base, most = kernel.encode_records(given_records)
    times = [record.timestamp_ms for record in given_records]
    assert (base, most) == (times[0], max(times))
    found = kernel.decode_records(memoryview(body)[61:], len(given_records), 50, base, None)
    assert found == numbered(given_records, 50)
    assert all(type(record) is Record for record in found)


def test_null_is_told_from_empty_and_headers_repeat_in_order(kernel: Any) -> None:
    given_records = [
        Record(None, b"", (("a", b""), ("a", None), ("", b"x"), ("a", b"")), 5),
        Record(b"", None, (), 4),
    ]
    body, base, _ = kernel.encode_records(given_records)
    assert kernel.decode_records(bytes(body[61:]), 2, 0, base, None) == numbered(given_records)


def test_append_time_is_the_timestamp_of_every_record(kernel: Any) -> None:
    body, base, _ = kernel.encode_records([Record(b"a", b"b", (), 5), Record(b"a", b"b", (), 9)])
    assert [record.timestamp_ms for record in kernel.decode_records(body[61:], 2, 0, base, 77)] == [77, 77]


def test_content_may_come_in_any_buffer(kernel: Any) -> None:
    plain = kernel.encode_records([Record(b"key", b"value", (("h", b"x"),), 1)])
    views = Record(memoryview(b"key"), bytearray(b"value"), (("h", memoryview(b"x")),), 1)  # type: ignore[arg-type]
    assert kernel.encode_records((views,)) == plain


def test_a_record_cut_off_anywhere_is_refused(kernel: Any) -> None:
    body = bytes(kernel.encode_records([Record(b"k", b"v" * 70, (("h", b"x"), ("i", None)), 1)])[0][61:])
    for size in range(len(body)):
        with pytest.raises(CorruptBatch):
            decode(kernel, body[:size])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (one(b"\0", 0, -1, -1, -1, 0), "record 0: an offset delta of -1"),
        (one(b"\0", 0, 0, 6, b"abc", -1, 0), "record 0: a length of 6 where 5 bytes"),
        (one(b"\0", 0, 0, -2, -1, 0), "record 0: a length of -2 where"),
        (one(b"\0", 0, 0, -1, 2**31 - 1, 0), "record 0: a length of 2147483647 where 1 bytes"),
        (one(b"\0", 0, 0, -1, -1, 2**31 - 1), "record 0: 2147483647 headers where 0 bytes"),
        (one(b"\0", 0, 0, -1, -1, -1), "record 0: -1 headers where"),
        (one(b"\0", 0, 0, -1, -1, 1, -1, -1), "record 0: a header without a key"),
        (one(b"\0", 0, 0, -1, -1, 0, b"xy"), "record 0: 2 bytes are left over"),
        (one(b"\0", 0, b"\xff\xff\xff\xff\x1f", -1, -1, 0), "record 0: a number does not fit in 32 bits"),
        (one(b"\0", b"\xff" * 10, 0, -1, -1, 0), "record 0: a number does not fit in 64 bits"),
        (one(b"\0", b"\x80" * 9 + b"\x02", 0, -1, -1, 0), "record 0: a number does not fit in 64 bits"),
        (one(b"\0", 0, 0, b"\x80" * 3), "record 0: a number runs past the end"),
        (b"\0" * 7, "record 0: a record of no bytes"),
        (b"\x01" * 7, "record 0: a length of -1 where 6"),
        (b"\xc8" + b"\x01" * 7, "record 0: a length of 100 where 6"),
        (one(b"\0", 0, 0, -1, -1, 0) + b"junk", "4 bytes are left over after the last record"),
        (b"\0" * 6, "1 records can not fit in 6 bytes"),
    ],
)
def test_bytes_that_are_no_record_are_refused_in_plain_words(kernel: Any, body: bytes, why: str) -> None:
    with pytest.raises(CorruptBatch) as caught:
        decode(kernel, body)
    assert why in str(caught.value)


@pytest.mark.parametrize("count", [-1, 2, 10**6, 2**31 - 1, 2**62])
def test_a_count_is_not_believed_before_it_is_compared_with_the_bytes(kernel: Any, count: int) -> None:
    with pytest.raises(CorruptBatch, match=f"{count} records can not fit"):
        decode(kernel, GOLDEN, count)


def test_longer_varints_than_needed_are_read_as_every_client_does(kernel: Any) -> None:
    body = one(b"\0", b"\x86\x80\x00", b"\x80\x80\x80\x80\x00", -1, -1, 0)
    assert decode(kernel, body)[0].timestamp_ms == 3


def test_a_timestamp_that_no_64_bits_hold_is_refused_both_ways(kernel: Any) -> None:
    with pytest.raises(CorruptBatch, match="a timestamp out of range"):
        kernel.decode_records(one(b"\0", 2**62, 0, -1, -1, 0), 1, 0, 2**62, None)
    for times in ([2**63], [-(2**63) - 1], [0, 2**63], [2**62, -(2**62) - 1]):
        with pytest.raises(InvalidTimestamp, match=f"{times[-1]} ms does not fit a batch that starts at {times[0]} ms"):
            kernel.encode_records([Record(None, None, (), time) for time in times])


@pytest.mark.parametrize("base_offset", [-1, 2**63 - 1])
def test_a_base_offset_that_leaves_no_room_for_deltas_is_refused(kernel: Any, base_offset: int) -> None:
    with pytest.raises(CorruptBatch, match="is not an offset"):
        kernel.decode_records(GOLDEN, 1, base_offset, 0, None)


@given(st.binary(min_size=1, max_size=8))
def test_a_header_key_that_is_not_text_is_read_with_replacements(kernel: Any, key: bytes) -> None:
    body = one(b"\0", 0, 0, -1, -1, 1, len(key), key, -1)
    assert decode(kernel, body)[0].headers == ((key.decode(errors="replace"), None),)
