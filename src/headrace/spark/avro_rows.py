"""Whole rows as Avro, by a schema that is given. Nothing is written that a row does not have.

Before anything is written the columns are compared with the schema: each has a field of its very name, whose type holds
all of its values, as Spark's own to_avro wants it; a field without a column is null, and is refused where it takes no
null. What only values show is looked for in whole columns: a null where there must be none, a decimal of too many
digits, microseconds where there is room for milliseconds.

Times go to fastavro as numbers: it would ask the machine's time zone about some of them, and drop digits.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.spark.errors import InvalidOption

if TYPE_CHECKING:
    import pyarrow as pa

HELD: Final[dict[str, tuple[type[DataType], ...]]] = {  # without a loss, by the type that Arrow has for Avro's
    "bool": (BooleanType,),
    "int32": (ByteType, ShortType, IntegerType),
    "int64": (ByteType, ShortType, IntegerType, LongType),
    "float": (FloatType,),
    "double": (FloatType, DoubleType),
    "string": (StringType,),
    "binary": (BinaryType,),
    "date32": (DateType,),
    "timestamp": (TimestampType, TimestampNTZType),  # the latter as UTC
    "decimal128": (DecimalType,),
}
RECORD: Final = ("record", "error")


class AvroRows:
    def __init__(self, schema: str) -> None:
        from headrace.decoding import avro
        from headrace.decoding.decoded import SchemaUnusable

        try:
            self._parsed = avro.parsed(schema)
            self._type = avro.type_of(self._parsed)
        except SchemaUnusable as error:
            raise InvalidOption(f"value.schema: {error}") from error
        import fastavro

        self._write = fastavro.schemaless_writer
        self._schema = fastavro.schema.expand_schema(self._parsed)  # each named type where it is used
        if _kind(self._schema) not in RECORD:
            raise InvalidOption("value.schema is no record, and a row is one")

    def check(self, row: StructType) -> None:
        """Is every column what the schema has?"""
        _check(row, self._schema, "")

    def fitted(self, table: pa.RecordBatch) -> pa.RecordBatch:
        """With the schema's columns, of its types, in which every value is what it was."""
        import pyarrow as pa

        columns = {}
        for field, given in zip(_one(self._schema)[0]["fields"], self._type, strict=True):
            name = field["name"]
            column = table.column(name) if name in table.schema.names else pa.nulls(table.num_rows)
            _check_nulls(column, field["type"], name)
            try:
                columns[name] = column.cast(given.type).cast(_stored(given.type))
            except pa.ArrowInvalid as error:
                raise InvalidOption(f"column {name!r} does not fit value.schema: {error}") from error
        return pa.record_batch(columns)

    def encode(self, row: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        try:
            self._write(out, self._parsed, row)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidOption(f"a row does not fit value.schema: {error}") from error
        return out.getvalue()


def _one(schema: Any) -> tuple[Any, bool]:
    """What it is when it is not null, and whether it may be."""
    if not isinstance(schema, list):
        return schema, schema == "null"
    others = [one for one in schema if one != "null"]
    return others[0], len(others) < len(schema)


def _kind(schema: Any) -> str:
    own = _one(schema)[0]
    return str(own["type"] if isinstance(own, dict) else own)


def _check(kind: DataType, schema: Any, column: str) -> None:
    own, is_nullable = _one(schema)
    match kind, _kind(schema):
        case StructType(), word if word in RECORD:
            _check_fields(kind, {field["name"]: field["type"] for field in own["fields"]}, column)
        case ArrayType(), "array":
            _check(kind.elementType, own["items"], f"{column}.element")
        case MapType(), "map":
            _check(kind.valueType, own["values"], f"{column}.value")
        case _:
            if not (_is_held(kind, own) or (is_nullable and isinstance(kind, NullType))):
                shown = own.get("logicalType", own["type"]) if isinstance(own, dict) else own
                words = f"is {kind.simpleString()}, and its field in value.schema {shown}"
                raise InvalidOption(f"column {column!r} {words}: cast the column, or change the schema")


def _check_fields(row: StructType, fields: dict[str, Any], column: str) -> None:
    for field in row.fields:
        name = f"{column}.{field.name}" if column else field.name
        if field.name not in fields:
            there = [one for one in fields if one.lower() == field.name.lower()] or list(fields)
            words = f"column {name!r} has no field in value.schema, where there are {', '.join(there)}"
            raise InvalidOption(f"{words}: rename the column, leave it out, or add the field")
        _check(field.dataType, fields[field.name], name)
    for name, schema in fields.items():
        if name not in row.names and not _one(schema)[1]:
            words = f"there is no column {f'{column}.{name}' if column else name!r}"
            raise InvalidOption(f"{words}, and its field in value.schema takes no null")


def _is_held(kind: DataType, own: Any) -> bool:
    from headrace.decoding import avro

    return isinstance(kind, HELD.get(str(avro.type_of(own)).partition("[")[0].partition("(")[0], ()))


def _check_nulls(column: pa.Array, schema: Any, name: str) -> None:
    from headrace.decoding.decoded import items

    own, is_nullable = _one(schema)
    if column.null_count:
        if not is_nullable:
            raise InvalidOption(f"column {name!r} is null in a row, and its field in value.schema takes no null")
        column = column.drop_null()
    if not len(column):
        return
    match _kind(own):
        case "array":
            _check_nulls(column.flatten(), own["items"], f"{name}.element")
        case "map":
            _check_nulls(items(column), own["values"], f"{name}.value")
        case word if word in RECORD:
            for field in own["fields"]:
                if column.type.get_field_index(field["name"]) >= 0:
                    _check_nulls(column.field(field["name"]), field["type"], f"{name}.{field['name']}")


def _stored(kind: pa.DataType) -> pa.DataType:
    """With numbers for times and dates, as Avro stores them."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_stored(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _stored(kind.item_type))
    return pa.list_(_stored(kind.value_type)) if pa.types.is_list(kind) else kind
