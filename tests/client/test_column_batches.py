"""Tables as batches for partitions: every row once, where its columns send it, in order."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from headrace.client.column_batches import pieces
from headrace.client.partitioner import by_key
from headrace.records.codec import BatchOptions, decode, seal

PARTITIONS, SPARE = 5, 2


def placed(table: pa.RecordBatch, max_bytes: int) -> dict[int, list[tuple[bytes | None, bytes | None, int]]]:
    found: dict[int, list[tuple[bytes | None, bytes | None, int]]] = {}
    for piece in pieces(table, PARTITIONS, SPARE, max_bytes, 77):
        assert len(piece.body) <= max_bytes or piece.rows == 1
        batch = seal(piece.body, piece.rows, piece.base_timestamp, piece.max_timestamp, BatchOptions())
        records = decode(batch)
        assert len(records) == piece.rows
        found.setdefault(piece.partition, []).extend((one.key, one.value, one.timestamp_ms) for one in records)
    return found


@pytest.mark.parametrize("max_bytes", [200, 1_000, 1 << 20])
@pytest.mark.parametrize("given", ["key", "partition", "both", "none"])
def test_every_row_goes_where_its_columns_say_and_keeps_its_place(given: str, max_bytes: int) -> None:
    chance = random.Random(max_bytes)
    rows = 2_000
    keys = [None if chance.random() < 0.1 else b"key-%d" % chance.randrange(300) for _ in range(rows)]
    goals = [None if chance.random() < 0.5 else chance.randrange(PARTITIONS) for _ in range(rows)]
    columns = {"value": pa.array([b"%d" % row for row in range(rows)], pa.binary())}
    if given in ("key", "both"):
        columns["key"] = pa.array(keys, pa.binary())
    if given in ("partition", "both"):
        columns["partition"] = pa.array(goals, pa.int64())
    columns["timestamp"] = pa.array([None if row % 7 else row for row in range(rows)], pa.timestamp("ms"))
    first = 123  # a slice shares the buffers of its table
    table = pa.record_batch(columns).slice(first)
    expected: dict[int, list[tuple[bytes | None, bytes | None, int]]] = {}
    for row in range(first, rows):
        key = keys[row] if "key" in columns else None
        goal = goals[row] if "partition" in columns else None
        if goal is None:
            goal = SPARE if key is None else by_key(key, PARTITIONS)
        expected.setdefault(goal, []).append((key, b"%d" % row, 77 if row % 7 else row))
    assert placed(table, max_bytes) == expected


def test_a_topic_of_one_partition_takes_all() -> None:
    table = pa.record_batch({"key": [b"a", None], "value": [b"1", b"2"]})
    assert [(one.partition, one.rows) for one in pieces(table, 1, 0, 1 << 20, 0)] == [(0, 2)]


def test_a_table_without_rows_is_no_batch() -> None:
    assert list(pieces(pa.record_batch({"value": pa.array([], pa.binary())}), 3, 0, 1 << 20, 0)) == []


def test_a_row_larger_than_a_batch_has_one_of_its_own() -> None:
    table = pa.record_batch({"key": [b"a", b"a", b"b"], "value": [b"x", bytes(5_000), b"y"]})
    assert sorted(one.rows for one in pieces(table, 2, 0, 1_000, 0)) in ([1, 1, 1], [1, 2])
