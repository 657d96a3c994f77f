"""The native kernel against its twin: the same answers, and the same errors in the same words."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records import twin
from headrace.records.codec import encode
from headrace.records.record import Record
from tests.records.kernels import contents, headers, native, outcome, plain_batch, records, runs_of_records

pytestmark = pytest.mark.skipif(native is None, reason="the native kernels are not built here")

BIG = 1 << 62


def same(name: str, *arguments: Any) -> Any:
    expected = outcome(getattr(twin, name), *arguments)
    assert outcome(getattr(native, name), *arguments) == expected
    return expected


def damaged(batch: bytes, seed: random.Random) -> bytes:
    """Bits flipped, bytes set to extremes, pieces cut out or doubled."""
    out = bytearray(batch)
    for _ in range(seed.randint(1, 4)):
        at = seed.randrange(len(out)) if out else 0
        match seed.randrange(5):
            case 0 if out:
                out[at] ^= 1 << seed.randrange(8)
            case 1 if out:
                out[at] = seed.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del out[at : at + seed.randrange(12)]
            case 3:
                out[at:at] = out[at : at + seed.randrange(12)]
            case _:
                out[at : at + 4] = seed.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"))
    return bytes(out)


@given(st.binary(max_size=3_000), st.integers(0, 2**32 - 1))
def test_checksums_agree(data: bytes, crc: int) -> None:
    same("crc32c", data)
    same("crc32c", memoryview(data)[1:], crc)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_judged_alike_as_batches(data: bytes) -> None:
    same("validate", data)
    same("scan", data, 0, len(data), -1, True)
    same("cut", data, 0, len(data), 0, BIG)
    same("pick", data, 0, 0, BIG, BIG)


@settings(max_examples=400)
@given(st.randoms(use_true_random=False), st.integers(-1, 8), st.booleans(), st.integers(0, 8), st.integers(0, 8))
def test_damaged_logs_are_walked_alike(
    seed: random.Random, expected: int, check: bool, from_offset: int, up_to: int
) -> None:
    data = damaged(bytes(plain_batch(2, 0) + plain_batch(1, 2) + plain_batch(3, 3)), seed)
    start = seed.randrange(len(data) + 1) if seed.random() < 0.1 else 0
    end = seed.randrange(start, len(data) + 1) if seed.random() < 0.3 else len(data)
    same("scan", data, start, end, expected, check)
    same("cut", data, start, end, from_offset, up_to)
    same("pick", data, max(expected, 0) if seed.random() < 0.3 else 0, from_offset, up_to, seed.randrange(600))
    same("validate", data, start, end)
    first = bytes(plain_batch(2, 0))
    same("validate", damaged(first, seed))


@settings(max_examples=600)
@given(runs_of_records, st.randoms(use_true_random=False), st.integers(-1, 14), st.none() | st.integers(-1, BIG))
def test_damaged_records_are_read_alike_as_rows_and_as_columns(
    given_records: list[Record], seed: random.Random, count: int, append_time: int | None
) -> None:
    body = damaged(bytes(twin.encode_records(given_records)[0][61:]), seed)
    count = len(given_records) if seed.random() < 0.7 else count
    same("decode_records", body, count, 5, 1_000, append_time)
    same("survey", body, count, 5, 1_000, append_time, seed.randrange(4, 12), seed.randrange(2_000))
    same("decode_columns", [(body, count, 5, 1_000, append_time)])


@given(st.binary(max_size=120), st.integers(-2, 20), st.integers(-2, 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_bytes_of_any_kind_are_read_alike_as_records(data: bytes, count: int, offset: int, time: int) -> None:
    same("decode_records", data, count, offset, time, None)
    same("survey", data, count, offset, time, None, 0, 0)
    same("decode_columns", [(data, count, offset, time, None)])


@given(runs_of_records)
def test_records_are_written_alike(given_records: list[Record]) -> None:
    same("encode_records", given_records)


@given(st.lists(st.builds(Record, contents, contents, headers, st.integers(-(2**65), 2**65)), max_size=4))
def test_timestamps_of_any_size_are_taken_or_refused_alike(given_records: list[Record]) -> None:
    same("encode_records", given_records)


@given(st.lists(st.lists(records, min_size=1, max_size=6), max_size=4))
def test_columns_are_built_alike_from_several_batches(given_runs: list[list[Record]]) -> None:
    bodies = [twin.encode_records(run) for run in given_runs]
    same(
        "decode_columns",
        [(body[61:], len(run), 9, base, None) for run, (body, base, _) in zip(given_runs, bodies, strict=True)],
    )


wild = st.none() | st.binary(max_size=24)
numbers = st.tuples(wild, st.binary(max_size=40), st.integers(-1, 3))
binary = st.tuples(
    wild,
    st.binary(max_size=24) | st.integers(0, 3).map(lambda n: bytes([0, 0, 0, 0, n, 0, 0, 0])),
    st.binary(max_size=8),
    st.integers(-1, 2),
)


@settings(max_examples=600)
@given(
    st.integers(0, 4),
    st.none() | numbers,
    st.none() | binary,
    st.none() | binary,
    st.none() | st.tuples(numbers, binary, binary),
    st.integers(0, 3),
    st.integers(0, 200),
)
def test_column_buffers_of_any_kind_are_written_or_refused_alike(
    rows: int, time: Any, key: Any, value: Any, given_headers: Any, first: int, limit: int
) -> None:
    same("encode_columns", rows, time, key, value, given_headers, first, limit, 7)


@given(runs_of_records, st.integers(0, 12), st.integers(-1, 1_500))
def test_columns_are_written_alike(given_records: list[Record], first: int, limit: int) -> None:
    body, base, _ = twin.encode_records(given_records)
    table = twin.decode_columns([(body[61:], len(given_records), 0, base, None)])
    arguments = (
        table.timestamp,
        table.key,
        table.value,
        (table.headers, table.header_key, table.header_value),
    )
    same("encode_columns", table.rows, *arguments, first, limit, -1)


@given(runs_of_records, st.integers(-1, 12), st.integers(-1, 50))
def test_keys_go_to_the_same_partitions(given_records: list[Record], rows: int, count: int) -> None:
    body, base, _ = twin.encode_records(given_records)
    table = twin.decode_columns([(body[61:], len(given_records), 0, base, None)])
    same("key_partitions", rows, table.key, count)
    same("key_partitions", table.rows, table.key, 2**31 - 1)


goals = st.lists(st.integers(-1, 4), max_size=14).map(lambda found: array("i", found).tobytes())


@given(runs_of_records, goals, st.integers(-1, 5), st.integers(-1, 1_500))
def test_rows_are_written_to_their_partitions_alike(
    given_records: list[Record], to: bytes, count: int, limit: int
) -> None:
    body, base, _ = twin.encode_records(given_records)
    table = twin.decode_columns([(body[61:], len(given_records), 0, base, None)])
    pairs = (table.headers, table.header_key, table.header_value)
    there = min(table.rows, len(to) // 4)
    for rows in (there, table.rows, -1):
        same("encode_partitioned", rows, table.timestamp, table.key, table.value, pairs, to, count, limit, -1)
    fitting = array("i", [row % 3 for row in range(table.rows)]).tobytes()
    same("encode_partitioned", table.rows, table.timestamp, table.key, table.value, pairs, fitting, 3, limit, -1)
    same("encode_partitioned", table.rows, None, None, table.value, None, fitting, 1 << 21, limit, 5)


@settings(max_examples=300)
@given(st.integers(0, 4), st.none() | numbers, st.none() | binary, st.none() | st.tuples(numbers, binary, binary))
def test_column_buffers_of_any_kind_are_partitioned_or_refused_alike(
    rows: int, time: Any, key: Any, given_headers: Any
) -> None:
    to = array("i", [1, 0, 1, 0]).tobytes()
    same("encode_partitioned", rows, time, key, key, given_headers, to, 2, 60, 7)


@given(st.integers(-(2**63), 2**63 - 1))
def test_append_times_are_stamped_alike(now_ms: int) -> None:
    first, second = plain_batch(), plain_batch()
    twin.stamp_append_time(first, 0, len(first), now_ms)
    native.stamp_append_time(memoryview(second), 0, len(second), now_ms)
    assert first == second


def test_every_prefix_of_a_batch_and_every_flipped_bit_is_judged_alike() -> None:
    batch = bytes(encode([Record(b"k", b"v", (("h", b"1"), ("h", None)), 5), Record(None, None, (), 3)]))
    for size in range(len(batch)):
        same("validate", batch[:size])
        same("scan", batch[:size], 0, size, -1, True)
    for bit in range(8 * len(batch)):
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 1 << bit % 8
        same("validate", flipped)
        same("scan", flipped, 0, len(flipped), -1, False)
        same("decode_records", bytes(flipped[61:]), 2, 0, 0, None)
        same("decode_columns", [(bytes(flipped[61:]), 2, 0, 0, None)])
