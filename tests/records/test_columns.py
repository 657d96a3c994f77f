from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptBatch, InvalidTimestamp
from headrace.records import columns, kernel
from headrace.records.codec import BatchOptions, Producer, decode, encode, split
from headrace.records.columns import from_arrow, schema, to_arrow
from headrace.records.control import Marker, encode_marker
from headrace.records.record import Record
from tests.records.kernels import COMPRESSIONS, KERNELS, name, numbered, runs_of_records


@pytest.fixture(params=KERNELS, ids=name, autouse=True)
def _each_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for function in ("decode_columns", "encode_columns"):
        monkeypatch.setattr(kernel, function, getattr(request.param, function))


def rows(table: pa.RecordBatch) -> list[Record]:
    return [
        Record(
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
            row["timestamp"],
            row["offset"],
        )
        for row in table.set_column(1, "timestamp", table["timestamp"].cast(pa.int64())).to_pylist()
    ]


def bare(records: list[Record]) -> list[tuple[Any, ...]]:
    return [record[:4] for record in records]


MIXED = [
    Record(b"a", b"1", (("h", b"x"), ("h", None)), 1_000),
    Record(None, b"", (), 900),
    Record(b"", None, (("\u00e9", b""),), 2_000),
    Record(None, None, (), -1),
]


@given(st.lists(runs_of_records, max_size=3))
def test_batches_become_a_table_with_every_record(given_runs: list[list[Record]]) -> None:
    batches, expected = [], []
    for run in given_runs:
        batches.append(encode(run, BatchOptions(len(expected))))
        expected += numbered(run, len(expected))
    table = to_arrow(batches)
    table.validate(full=True)
    assert table.schema == schema()
    assert rows(table) == expected


@given(runs_of_records, st.data())
def test_any_slice_of_a_table_becomes_batches_with_the_same_records(run: list[Record], data: st.DataObject) -> None:
    table = to_arrow([encode(run)])
    start = data.draw(st.integers(0, len(run) - 1))
    size = data.draw(st.integers(1, len(run) - start))
    limit = data.draw(st.integers(0, 2_000))
    encoded = from_arrow(table.slice(start, size), BatchOptions(70), max_batch_bytes=limit)
    found = decode(b"".join(encoded))
    assert bare(found) == bare(run[start : start + size])
    assert [record.offset for record in found] == list(range(70, 70 + size))
    assert all(len(batch) <= limit or header.record_count == 1 for batch in encoded for header, _ in split(batch))


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_compression_goes_both_ways(compression: str) -> None:
    table = to_arrow([encode(MIXED, BatchOptions(compression=compression))])
    assert rows(table) == numbered(MIXED)
    (batch,) = from_arrow(table, BatchOptions(compression=compression))
    assert decode(batch) == numbered(MIXED)


def test_null_is_told_from_empty() -> None:
    table = to_arrow([encode(MIXED)])
    assert table["key"].to_pylist() == [b"a", None, b"", None]
    assert table["value"].to_pylist() == [b"1", b"", None, None]
    assert (table["key"].null_count, table["value"].null_count) == (2, 2)
    assert to_arrow([encode(MIXED[:1])])["key"].buffers()[0] is None


def test_append_time_and_control_batches_are_as_the_log_means_them() -> None:
    marker = encode_marker(Marker(True, 1), 5, 0, 50, base_offset=4)
    data = encode(MIXED, BatchOptions(append_time_ms=77)) + marker
    assert {record.timestamp_ms for record in rows(to_arrow([data]))} == {77}
    assert len(to_arrow([data])) == 4
    assert to_arrow([data], skip_control=False)["offset"].to_pylist() == [0, 1, 2, 3, 4]


def test_nothing_becomes_an_empty_table_and_back() -> None:
    table = to_arrow([])
    table.validate(full=True)
    assert len(table) == 0 and from_arrow(table) == []


def test_a_damaged_batch_makes_no_table() -> None:
    batch = encode(MIXED)
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        to_arrow([batch])
    with pytest.raises(CorruptBatch):
        to_arrow([batch], check_crc=False)


def test_tables_of_people_are_taken_by_column_names_and_types_are_adapted() -> None:
    table = pa.table(
        {
            "value": pa.array(["one", None, "three"], pa.large_string()),
            "key": pa.array([b"a", b"", None], pa.large_binary()),
            "timestamp": pa.array([1_500, None, 2_999], pa.timestamp("us")),
            "other": [1, 2, 3],
        }
    )
    (batch,) = from_arrow(table, default_timestamp_ms=9)
    assert bare(decode(batch)) == [(b"a", b"one", (), 1), (b"", None, (), 9), (None, b"three", (), 2)]
    (batch,) = from_arrow(pa.table({"value": pa.array([b"x"]), "timestamp": pa.array([5], pa.int32())}))
    assert bare(decode(batch)) == [(None, b"x", (), 5)]
    with pytest.raises(ValueError, match="needs a column `value`; this one has v, w"):
        from_arrow(pa.table({"v": [1], "w": [2]}))


def test_headers_of_people_may_be_null_lists_but_not_null_headers() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    lists = [
        [{"key": "a", "value": b"1"}],
        None,
        [],
        [{"key": "b", "value": None}, {"key": "b", "value": b""}],
    ]
    table = pa.table({"value": [b"x"] * 4, "headers": pa.array(lists, kind)})
    (batch,) = from_arrow(table)
    expected = [(("a", b"1"),), (), (), (("b", None), ("b", b""))]
    assert [record.headers for record in decode(batch)] == expected
    (batch,) = from_arrow(table.slice(1))
    assert [record.headers for record in decode(batch)] == expected[1:]
    for broken in ([[None]], [[{"key": None, "value": b""}]]):
        with pytest.raises(ValueError, match="header"):
            from_arrow(pa.table({"value": [b"x"], "headers": pa.array(broken, kind)}))


def test_a_producers_sequence_goes_on_from_batch_to_batch() -> None:
    table = to_arrow([encode(MIXED)])
    options = BatchOptions(producer=Producer(9, 1, 100))
    headers = [split(batch)[0][0] for batch in from_arrow(table, options, max_batch_bytes=0)]
    assert [header.base_sequence for header in headers] == [100, 101, 102, 103]
    assert [header.base_offset for header in headers] == [0, 1, 2, 3]


def test_timestamps_too_far_apart_for_one_batch_are_refused() -> None:
    times = pa.array([2**62, -(2**62) - 1], pa.int64())
    with pytest.raises(InvalidTimestamp):
        from_arrow(pa.table({"value": [b"a", b"b"], "timestamp": times}))


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ((None, b"\0" * 4, b"", 0), "ends before its rows do"),
        ((None, b"\0" * 8, b"", 1), "ends before its rows do"),
        ((b"", b"\0" * 8, b"", 0), "ends before its rows do"),
        ((None, b"\0\0\0\0\5\0\0\0", b"abc", 0), "point outside of its data"),
        ((None, b"\2\0\0\0\1\0\0\0", b"abc", 0), "point outside of its data"),
        ((None, b"\xff\xff\xff\xff\1\0\0\0", b"abc", 0), "point outside of its data"),
    ],
)
def test_column_buffers_that_do_not_add_up_are_refused(key: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        kernel.encode_columns(1, None, key, None, None, 0, 1_000, 0)


def test_a_row_that_is_not_there_is_refused() -> None:
    for first in (-1, 1, 2):
        with pytest.raises(ValueError, match=f"row {first} of 1"):
            kernel.encode_columns(1, None, None, None, None, first, 1_000, 0)


def test_the_default_batch_fits_kafkas_default_limit() -> None:
    table = pa.table({"value": [b"v" * 1_000] * 3_000})
    sizes = [len(batch) for batch in from_arrow(table)]
    assert len(sizes) == 4 and max(sizes) <= columns.DEFAULT_BATCH_BYTES < 1_048_588
