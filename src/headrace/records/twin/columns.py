"""Records to columns and back, through Python records. The native kernel goes straight to them."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

from headrace.errors import LimitReached
from headrace.ports import Buffer
from headrace.records.buffers import MAX_COLUMN_BYTES, Binary, Columns, Numbers, Run
from headrace.records.header import HEADER_BYTES
from headrace.records.record import Headers
from headrace.records.twin.records import check_timestamp, decode_records, encode_one

TOO_SHORT = "a column's buffer ends before its rows do"
OUTSIDE = "a column's offsets point outside of its data"
MAX_PARTITIONS = 1 << 20  # of one topic: more than anybody has, and little to keep count of


def decode_columns(runs: Sequence[Run]) -> Columns:
    """All records of the runs, in their order."""
    offsets, timestamps, list_offsets = array("q"), array("q"), array("i", [0])
    keys, values, header_keys, header_values = (_BinaryBuilder() for _ in range(4))
    for run in runs:
        for record in decode_records(*run):
            offsets.append(record.offset)
            timestamps.append(record.timestamp_ms)
            keys.append(record.key)
            values.append(record.value)
            for name, content in record.headers:
                header_keys.append(name.encode())
                header_values.append(content)
            list_offsets.append(len(header_keys.present))
    return Columns(
        len(offsets),
        (None, offsets.tobytes(), 0),
        (None, timestamps.tobytes(), 0),
        keys.finish(),
        values.finish(),
        (None, list_offsets.tobytes(), 0),
        header_keys.finish(),
        header_values.finish(),
    )


def encode_columns(
    rows: int,
    timestamp: Numbers | None,
    key: Binary | None,
    value: Binary | None,
    headers: tuple[Numbers, Binary, Binary] | None,
    first: int,
    max_bytes: int,
    default_timestamp: int,
) -> tuple[bytearray, int, int, int]:
    """Rows from `first` on as one batch's records, while they fit in `max_bytes`; one row at least.

    Gives (HEADER_BYTES of room and the records, rows taken, base timestamp, max timestamp). A row without a
    timestamp has the default; a column that is not there is null in every row.
    """
    if not 0 <= first < rows:
        raise ValueError(f"row {first} of {rows}")
    if any(column is not None and column[-1] < 0 for column in (timestamp, key, value, *(headers or ()))):
        raise ValueError(TOO_SHORT)
    out = bytearray(HEADER_BYTES)
    base_timestamp = max_timestamp = _timestamp(timestamp, first, default_timestamp)
    taken = 0
    for row in range(first, rows):
        at = _timestamp(timestamp, row, default_timestamp)
        size = len(out)
        delta = check_timestamp(at, base_timestamp)
        encode_one(out, taken, delta, binary_at(key, row), binary_at(value, row), _headers(headers, row))
        if len(out) > max_bytes and taken:
            del out[size:]
            break
        max_timestamp = max(max_timestamp, at)
        taken += 1
    return out, taken, base_timestamp, max_timestamp


def encode_partitioned(
    rows: int,
    timestamp: Numbers | None,
    key: Binary | None,
    value: Binary | None,
    headers: tuple[Numbers, Binary, Binary] | None,
    partitions: Buffer,
    count: int,
    max_bytes: int,
    default_timestamp: int,
) -> list[tuple[int, bytearray, int, int, int]]:
    """All rows as batches of up to `max_bytes`, each row in one of the partition, of `count`, that `partitions` has
    for it, 4 bytes each; rows of a partition stay in their order.

    Gives (partition, and what `encode_columns` gives) of each batch: those that are full as they get so, then the rest
    by partition.
    """
    if rows < 0 or not 1 <= count <= MAX_PARTITIONS:
        raise ValueError(f"{rows} rows for {count} partitions")
    if any(column is not None and column[-1] < 0 for column in (timestamp, key, value, *(headers or ()))):
        raise ValueError(TOO_SHORT)
    goals = []
    for row in range(rows):
        goals.append(_number(partitions, row, 4))
        if not 0 <= goals[-1] < count:
            raise ValueError(f"row {row} goes to partition {goals[-1]} of {count}")
    found: list[tuple[int, bytearray, int, int, int]] = []
    open_: dict[int, tuple[bytearray, int, int, int]] = {}
    for row, goal in enumerate(goals):
        at = _timestamp(timestamp, row, default_timestamp)
        out, taken, base, most = open_.get(goal) or (bytearray(HEADER_BYTES), 0, at, at)
        size, delta = len(out), check_timestamp(at, base)
        content = binary_at(key, row), binary_at(value, row), _headers(headers, row)
        encode_one(out, taken, delta, *content)
        if len(out) > max_bytes and taken:
            del out[size:]
            found.append((goal, out, taken, base, most))
            out, taken, base, most = bytearray(HEADER_BYTES), 0, at, at
            encode_one(out, 0, 0, *content)
        open_[goal] = out, taken + 1, base, max(most, at)
    return found + [(goal, *open_[goal]) for goal in sorted(open_)]


class _BinaryBuilder:
    def __init__(self) -> None:
        self.present: list[bool] = []
        self.offsets = array("i", [0])
        self.data = bytearray()

    def append(self, content: bytes | None) -> None:
        self.present.append(content is not None)
        self.data += content or b""
        if len(self.data) > MAX_COLUMN_BYTES:
            raise LimitReached(f"a column holds {MAX_COLUMN_BYTES} bytes at most: take fewer batches at once")
        self.offsets.append(len(self.data))

    def finish(self) -> Binary:
        validity = None
        if not all(self.present):
            validity = bytearray(-(-len(self.present) // 8))
            for row, there in enumerate(self.present):
                validity[row >> 3] |= there << (row & 7)
        return validity, self.offsets.tobytes(), bytes(self.data), 0


def _is_null(validity: Buffer | None, index: int) -> bool:
    if validity is None:
        return False
    if not 0 <= index >> 3 < len(validity):
        raise ValueError(TOO_SHORT)
    return not validity[index >> 3] >> (index & 7) & 1


def _number(data: Buffer, index: int, size: int) -> int:
    if index < 0 or len(data) < (index + 1) * size:
        raise ValueError(TOO_SHORT)
    return int.from_bytes(data[index * size : (index + 1) * size], sys.byteorder, signed=True)


def _timestamp(column: Numbers | None, row: int, default: int) -> int:
    if column is None or _is_null(column[0], column[2] + row):
        return default
    return _number(column[1], column[2] + row, 8)


def binary_at(column: Binary | None, row: int) -> bytes | None:
    if column is None or _is_null(column[0], column[3] + row):
        return None
    begin, end = _number(column[1], column[3] + row, 4), _number(column[1], column[3] + row + 1, 4)
    if not 0 <= begin <= end <= len(column[2]):
        raise ValueError(OUTSIDE)
    return bytes(column[2][begin:end])


def _headers(columns: tuple[Numbers, Binary, Binary] | None, row: int) -> Headers:
    if columns is None:
        return ()
    (validity, offsets, start), keys, values = columns
    if _is_null(validity, start + row):
        return ()
    begin, end = _number(offsets, start + row, 4), _number(offsets, start + row + 1, 4)
    if not 0 <= begin <= end:
        raise ValueError(OUTSIDE)
    found: list[tuple[str, bytes | None]] = []
    for index in range(begin, end):
        name = binary_at(keys, index)
        if name is None:
            raise ValueError("a header without a key")
        try:
            found.append((name.decode(), binary_at(values, index)))
        except UnicodeDecodeError:
            raise ValueError("a header's key is not UTF-8") from None
    return tuple(found)
