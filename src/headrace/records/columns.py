"""Batches to Arrow tables and back. pyarrow is imported when it is first used, so a broker never pays for it.

offset      int64
timestamp   timestamp[ms, UTC]: what the batch holds, exactly; -1 (no timestamp) stays -1
key, value  binary; null is told from empty
headers     list of (key string, value binary), in order, keys may repeat
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from headrace.ports import Buffer
from headrace.records import kernel
from headrace.records.buffers import Binary, Columns, Numbers, Run
from headrace.records.codec import PLAIN, BatchOptions, records_bytes, seal, split
from headrace.records.header import BatchHeader
from headrace.records.record import NO_TIMESTAMP

if TYPE_CHECKING:
    import pyarrow as pa

Inputs = tuple[Numbers | None, Binary | None, Binary | None, tuple[Numbers, Binary, Binary] | None]

DEFAULT_BATCH_BYTES = 1_000_000  # fits Kafka's default max.message.bytes (1,048,588) with room to spare


@cache
def schema() -> pa.Schema:
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    return pa.schema(
        [
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("headers", pa.list_(pa.field("item", header, nullable=False)), nullable=False),
        ]
    )


def to_arrow(batches: Iterable[Buffer], *, skip_control: bool = True, check_crc: bool = True) -> pa.RecordBatch:
    """All records of `batches`, each of which may be several in a row, as one table."""
    runs: list[Run] = []
    for buffer in batches:
        for header, body in split(buffer, check_crc=check_crc):
            if not (skip_control and header.is_control):
                runs.append(run_of(header, body))
    return table_of(runs)


def run_of(header: BatchHeader, body: Buffer) -> Run:
    """A batch's records without compression, as the kernel takes them."""
    append_time_ms = header.max_timestamp if header.is_log_append_time else None
    return records_bytes(header, body), header.record_count, header.base_offset, header.base_timestamp, append_time_ms


def table_of(runs: Sequence[Run]) -> pa.RecordBatch:
    """All records of the runs, in their order."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(_arrays(Columns(*kernel.decode_columns(runs))), schema=schema())


def from_arrow(
    table: pa.RecordBatch | pa.Table,
    options: BatchOptions = PLAIN,
    *,
    max_batch_bytes: int = DEFAULT_BATCH_BYTES,
    default_timestamp_ms: int = NO_TIMESTAMP,
) -> list[bytearray]:
    """The table's rows as batches of up to `max_batch_bytes` before compression (a larger row gets its own).

    Columns are found by name: `value`, and where there are `key`, `timestamp`, `headers`; text counts as its
    UTF-8. Offsets go on from the options' base offset, and a producer's sequence likewise.
    """
    import pyarrow as pa

    encoded: list[bytearray] = []
    for chunk in table.to_batches() if isinstance(table, pa.Table) else [table]:
        columns = inputs_of(chunk)
        first = 0
        while first < chunk.num_rows:
            batch, rows, base_timestamp, max_timestamp = kernel.encode_columns(
                chunk.num_rows, *columns, first, max_batch_bytes, default_timestamp_ms
            )
            encoded.append(seal(batch, rows, base_timestamp, max_timestamp, options))
            options = options.after(rows)
            first += rows
    return encoded


def _arrays(columns: Columns) -> list[Any]:
    import pyarrow as pa

    rows, fields = columns.rows, schema()

    def binary(kind: pa.DataType, length: int, column: Binary) -> pa.Array:
        validity, offsets, data, _ = column
        return pa.Array.from_buffers(kind, length, [_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)])

    def numbers(kind: pa.DataType, column: Numbers) -> pa.Array:
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(column[1])])

    item = fields.field("headers").type.value_type
    headers = len(memoryview(columns.header_key[1])) // 4 - 1
    pairs = pa.StructArray.from_arrays(
        [
            binary(pa.string(), headers, columns.header_key),
            binary(pa.binary(), headers, columns.header_value),
        ],
        fields=[item.field(0), item.field(1)],
    )
    return [
        numbers(pa.int64(), columns.offset),
        numbers(fields.field("timestamp").type, columns.timestamp),
        binary(pa.binary(), rows, columns.key),
        binary(pa.binary(), rows, columns.value),
        pa.Array.from_buffers(
            fields.field("headers").type, rows, [None, pa.py_buffer(columns.headers[1])], children=[pairs]
        ),
    ]


def key_of(chunk: pa.RecordBatch) -> Binary | None:
    """The column `key` as the kernel takes it, where there is one."""
    return _binary(chunk.column("key")) if "key" in chunk.schema.names else None


def inputs_of(chunk: pa.RecordBatch) -> Inputs:
    """The columns as the kernel takes them."""
    import pyarrow as pa

    if "value" not in chunk.schema.names:
        raise ValueError(f"a table needs a column `value`; this one has {', '.join(chunk.schema.names)}")
    given = {name: chunk.column(name) for name in chunk.schema.names}
    timestamp = given.get("timestamp")
    if timestamp is not None and pa.types.is_timestamp(timestamp.type):
        timestamp = timestamp.cast(pa.timestamp("ms"), safe=False)  # finer time than Kafka has is cut off
    return (
        None if timestamp is None else _numbers(timestamp.cast(pa.int64())),
        _binary(given.get("key")),
        _binary(given["value"]),
        _headers(given.get("headers")),
    )


def _numbers(column: pa.Array) -> Numbers:
    validity, numbers = column.buffers()[:2]
    return _view(validity), _view(numbers) or b"", column.offset


def _binary(column: pa.Array | None) -> Binary | None:
    import pyarrow as pa

    if column is None:
        return None
    column = column.cast(pa.binary())
    validity, offsets, data = column.buffers()
    return _view(validity), _view(offsets) or b"", _view(data) or b"", column.offset


def _headers(column: pa.Array | None) -> tuple[Numbers, Binary, Binary] | None:
    import pyarrow as pa

    if column is None:
        return None
    column = column.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    if column.values.null_count:
        raise ValueError("a header that is null: leave it out, or give it a key")
    keys, values = _binary(column.values.field(0)), _binary(column.values.field(1))
    assert keys is not None and values is not None
    return _numbers(column), keys, values


def _buffer(content: Buffer | None) -> Any:
    import pyarrow as pa

    return None if content is None else pa.py_buffer(content)


def _view(content: Any) -> memoryview | None:
    return None if content is None else memoryview(content).cast("B")
