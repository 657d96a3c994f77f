"""The client's tables turned into Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from headrace.decoding.decoded import Decoder
from headrace.spark.options import SourceOptions
from headrace.spark.schema import CLIENT_NAMES
from headrace.spark.values import ERROR, RAW, decoder, value_type

LAST_MS: Final = (1 << 63) // 1000 - 1  # what Spark's microseconds reach
SPARK_TIME: Final = pa.timestamp("us", "UTC")


class Shape:
    """Turns the client's tables into Spark's, for one schema."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self.target = to_arrow_schema(schema, timezone="UTC")
        self._decode: Decoder | None = None
        self._is_raw_kept = options.is_raw_kept
        if options.value_format is not None and not {"value", RAW, ERROR}.isdisjoint(schema.fieldNames()):
            kind = self.target.field("value").type if "value" in schema.fieldNames() else _type_of(options)
            self._decode = decoder(options, kind)

    def table(self, found: pa.RecordBatch) -> pa.RecordBatch:
        made = {} if self._decode is None else _decoded(found.column("value"), self._decode, self._is_raw_kept)
        arrays = [
            made[field.name]
            if field.name in made
            else _column(found.column(CLIENT_NAMES.get(field.name, field.name)), field.type)
            for field in self.target
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.target)


def _decoded(raw: pa.Array, decode: Decoder, is_raw_kept: bool) -> dict[str, pa.Array]:
    values, errors = decode(raw)
    if is_raw_kept:
        return {"value": values, RAW: _column(raw, pa.binary()), ERROR: errors}
    if errors.null_count == len(errors):
        return {"value": values, RAW: pa.nulls(len(raw), pa.binary()), ERROR: errors}
    return {"value": values, RAW: pc.if_else(errors.is_valid(), raw, pa.scalar(None, pa.binary())), ERROR: errors}


def _type_of(options: SourceOptions) -> pa.DataType:
    """For who wants to see what could not be decoded, and not what could."""
    field = StructField("value", value_type(options))
    return to_arrow_schema(StructType([field]), timezone="UTC").field("value").type


def _column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if pa.types.is_timestamp(kind):
        return _microseconds(column)
    if pa.types.is_list(kind):
        return _headers(column, kind)
    return column.cast(kind)


def _headers(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same layout under other names; a record without headers has null, as in Spark's own source."""
    pairs = column.values
    item = pa.StructArray.from_arrays(
        [pairs.field(0), pairs.field(1)], fields=[kind.value_type.field(0), kind.value_type.field(1)]
    )
    validity, offsets = column.buffers()[:2]
    has_some = pc.greater(pc.list_value_length(column), 0)
    if column.offset == 0:
        return pa.Array.from_buffers(kind, len(column), [has_some.buffers()[1], offsets], children=[item])
    named = pa.Array.from_buffers(kind, len(column), [validity, offsets], offset=column.offset, children=[item])
    return pc.if_else(has_some, named, pa.scalar(None, kind))


def _microseconds(column: pa.Array) -> pa.Array:
    try:
        return column.cast(SPARK_TIME)
    except pa.ArrowInvalid:  # a time that Spark cannot tell: the nearest that it can
        numbers = column.cast(pa.int64())
        numbers = pc.max_element_wise(pc.min_element_wise(numbers, LAST_MS), -LAST_MS)
        return numbers.cast(pa.timestamp("ms", "UTC")).cast(SPARK_TIME)


def joined(tables: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return tables[0] if len(tables) == 1 else pa.concat_batches(tables)
