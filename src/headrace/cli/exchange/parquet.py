"""Parquet, through pyarrow, which is an extra: `pip install headrace[columns]`.

    partition int32, offset int64, timestamp timestamp[ms, UTC], key binary, value binary,
    headers list<struct<key: string, value: binary>>

Written in row groups of bounded size and read back in batches of bounded length, so that a file may be larger than the
memory. A file of somebody else's needs a column `value`; the other columns may be missing, text is taken for bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from headrace.cli.exchange.rows import ROWS_AT_ONCE, BadRow, Rows, size_of
from headrace.cli.exits import Refusal
from headrace.cli.record_values import Sending
from headrace.client.values import Record

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_BYTES = 16 << 20
GROUP_ROWS = 100_000
COMPRESSION = "zstd"


class ParquetWriter:
    def __init__(self, out: BinaryIO, topic: str) -> None:
        arrow()
        import pyarrow.parquet as parquet

        self._out = out
        self._schema = schema().with_metadata({"headrace.topic": topic})
        self._file = parquet.ParquetWriter(out, self._schema, compression=COMPRESSION)
        self._waiting: list[Record] = []
        self._bytes = 0

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            self._waiting.append(record)
            self._bytes += size_of(record)
            if self._bytes >= GROUP_BYTES or len(self._waiting) >= GROUP_ROWS:
                self._write_group()

    def finish(self) -> None:
        if self._waiting:
            self._write_group()
        self._file.close()
        self._out.flush()

    def _write_group(self) -> None:
        pa, records = arrow(), self._waiting
        columns: list[list[Any]] = [
            [record.partition for record in records],
            [record.offset for record in records],
            [record.timestamp_ms for record in records],
            [record.key for record in records],
            [record.value for record in records],
            [[{"key": key, "value": value} for key, value in record.headers] for record in records],
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._file.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._waiting, self._bytes = [], 0


def read_parquet(file: BinaryIO, name: str) -> Rows:
    pa = arrow()
    import pyarrow.parquet as parquet

    try:
        source = parquet.ParquetFile(file)
        names = source.schema_arrow.names
        if "value" not in names:
            raise BadRow(f"{name} has no column `value` (columns: {', '.join(names)})")
        wanted = [field.name for field in schema() if field.name in names and field.name != "offset"]
        for group in range(source.num_row_groups):  # one at a time: all at once it reads far ahead
            batches = source.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=wanted, use_threads=False)
            for batch in batches:
                yield _rows(pa, batch)
    except pa.ArrowException as error:
        raise BadRow(f"{name} is not a Parquet file of records: {str(error).splitlines()[0]}") from error


def _rows(pa: Any, batch: pa.RecordBatch) -> list[Sending]:
    def column(field: str, kind: Any, absent: object = None) -> list[Any]:
        if field not in batch.schema.names:
            return [absent] * batch.num_rows
        given = batch.column(field)
        if field == "timestamp" and pa.types.is_timestamp(given.type):
            given = given.cast(pa.timestamp("ms"), safe=False)  # finer time than records have is cut off
        listed: list[Any] = given.cast(kind).to_pylist()
        return listed

    kinds = {field.name: field.type for field in schema()}
    return [
        Sending(value, key, tuple((pair["key"], pair["value"]) for pair in pairs or ()), _known(partition), _known(at))
        for value, key, pairs, partition, at in zip(
            column("value", kinds["value"]),
            column("key", kinds["key"]),
            column("headers", kinds["headers"]),
            column("partition", kinds["partition"]),
            column("timestamp", pa.int64()),
            strict=True,
        )
    ]


def _known(number: int | None) -> int | None:
    return number if number is not None and number >= 0 else None


def schema() -> pa.Schema:
    from headrace.records import columns

    pa = arrow()
    return pa.schema([pa.field("partition", pa.int32(), nullable=False), *columns.schema()])


def arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        step = "pip install 'headrace[columns]'; JSONL and CSV need nothing more"
        raise Refusal("Parquet needs pyarrow, which is not installed", step) from None
    return pyarrow
