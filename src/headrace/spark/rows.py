"""A DataFrame's rows as the client's columns: those of Spark's Kafka sink, or a whole row encoded as its value.

`key`, `headers`, `topic`, `partition` and `timestamp` keep their meaning beside an encoded row and are left out of it.

Maps are objects in JSON and maps in Avro. JSON has no NaN and no infinity: they are the texts "NaN", "Infinity" and
"-Infinity", as Spark's own to_json has them, since null would be another value.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
    YearMonthIntervalType,
)

from headrace.spark.avro_rows import AvroRows
from headrace.spark.errors import InvalidOption
from headrace.spark.schema import HEADERS
from headrace.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

TEXT: Final = (StringType, BinaryType)
ALLOWED: Final[dict[str, tuple[type[DataType], ...]]] = {
    "key": TEXT,
    "value": TEXT,
    "topic": (StringType,),
    "partition": (IntegerType,),
    "timestamp": (TimestampType,),
    "headers": (ArrayType,),
}
KEYS: Final[dict[str, tuple[type[DataType], ...]]] = {  # of maps; others have no one form as a text
    "json": (StringType, ByteType, ShortType, IntegerType, LongType, DateType),
    "avro": (StringType,),
}
BESIDE: Final = tuple(name for name in ALLOWED if name != "value")


def check(schema: StructType, options: SinkOptions) -> None:
    """Before anything is written: what the columns must be."""
    names = schema.fieldNames()
    if options.topic is None and "topic" not in names:
        raise InvalidOption('name the topic: .option("topic", "orders"), or a column `topic` in every row')
    if options.row_format is None:
        if "value" not in names:
            raise InvalidOption(
                f"a column `value` is needed, or value.format=json for whole rows; there are {', '.join(names)}"
            )
        if strange := [name for name in names if name not in ALLOWED]:
            advice = "select the columns, or give value.format=json to write whole rows"
            raise InvalidOption(f"a sink takes the columns {', '.join(ALLOWED)}, not {', '.join(strange)}; {advice}")
    elif not [name for name in names if name not in BESIDE]:
        raise InvalidOption(
            f"value.format={options.row_format} encodes the columns beside {', '.join(BESIDE)}; there are none"
        )
    encoded = StructType([field for field in schema.fields if field.name not in BESIDE])
    if options.row_format is not None:
        _check_names(encoded, "the schema")
    for field in schema.fields:
        if options.row_format is not None and field.name not in BESIDE:
            _check_type(field.name, field.dataType, options.row_format)
            continue
        wanted = ALLOWED[field.name]
        fits = isinstance(field.dataType, wanted)
        if field.name == "headers":
            fits = field.dataType.simpleString() == HEADERS.simpleString()
        if not fits:
            shown = HEADERS.simpleString() if field.name == "headers" else " or ".join(one.typeName() for one in wanted)
            raise InvalidOption(f"column {field.name!r} is {shown}, not {field.dataType.simpleString()}")
    if options.row_format == "avro":
        AvroRows(options.row_schema or "").check(encoded)


def _check_names(row: StructType, where: str) -> None:
    """An object has each name once: the last of two would be all that is written."""
    twice = [name for number, name in enumerate(row.names) if name in row.names[:number]]
    if twice:
        raise InvalidOption(f"{where} has the column {twice[0]!r} twice: name each column once")


def _check_type(column: str, kind: DataType, row_format: str) -> None:
    match kind:
        case YearMonthIntervalType():  # Python has none, so that no row would come this far
            words = f"is {kind.simpleString()}, which value.format={row_format} cannot write"
            raise InvalidOption(f"column {column!r} {words}: cast it to string or int")
        case MapType():
            allowed = KEYS[row_format]
            if not isinstance(kind.keyType, allowed):
                shown = " or ".join(one.typeName() for one in allowed)
                words = f"value.format={row_format} takes maps whose keys are {shown}, not {kind.simpleString()}"
                raise InvalidOption(f"column {column!r}: {words}")
            _check_type(column, kind.valueType, row_format)
        case ArrayType():
            _check_type(column, kind.elementType, row_format)
        case StructType():
            _check_names(kind, f"column {column!r}")
            for field in kind.fields:
                _check_type(column, field.dataType, row_format)


def shaped(tables: Iterator[pa.RecordBatch], options: SinkOptions) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Topic by topic, with the columns that the client takes."""
    import pyarrow.compute as pc

    encode = _encoder(options)
    for table in tables:
        if "headers" in table.schema.names:
            _check_headers(table.column("headers"))
        if encode is not None:
            table = encode(table)
        if "topic" not in table.schema.names:
            assert options.topic is not None
            yield options.topic, table
            continue
        topics = table.column("topic")
        rows = table.drop_columns(["topic"])
        if options.topic is not None:  # as in Spark's own: the option comes before the column
            yield options.topic, rows
            continue
        if topics.null_count:
            raise InvalidOption("a row without a topic: the column `topic` is null in it")
        for name in (names := _names(pc.unique(topics))):
            yield name, rows.filter(pc.equal(topics, name)) if len(names) > 1 else rows


def _names(topics: pa.Array) -> list[str]:
    try:
        return list(topics.to_pylist())
    except UnicodeDecodeError as error:
        raise InvalidOption("column 'topic' is no UTF-8 in a row, and the name of a topic is") from error


def _check_headers(headers: pa.ListArray) -> None:
    pairs = headers.flatten()  # of rows that have some
    if pairs.null_count or pairs.field(0).null_count:
        raise InvalidOption("a header without a key: in the column `headers` each has one; leave out what is null")


def _encoder(options: SinkOptions) -> Callable[[pa.RecordBatch], pa.RecordBatch] | None:
    if options.row_format is None:
        return None
    import pyarrow as pa

    avro = AvroRows(options.row_schema or "") if options.row_format == "avro" else None
    encode_row = _JSON.encode if avro is None else avro.encode

    def encode(table: pa.RecordBatch) -> pa.RecordBatch:
        beside = [name for name in table.schema.names if name in BESIDE]
        row = table.drop_columns(beside)
        values = _objects(row if avro is None else avro.fitted(row))
        if avro is None and any(_has_odd_numbers(column) for column in row.columns):
            values = [_finite(one) for one in values]
        columns = {name: table.column(name) for name in beside}
        return pa.record_batch({**columns, "value": pa.array([encode_row(row) for row in values], pa.binary())})

    return encode


def _objects(table: pa.RecordBatch) -> list[Any]:
    try:
        if not any(_has_maps(kind) for kind in table.schema.types):  # half as dear, and most tables have none
            return list(table.to_pylist())
        rows: list[Any] = table.to_pylist(maps_as_pydicts="strict")
    except KeyError as error:
        raise InvalidOption(f"a map has a key twice, and an object cannot: {error.args[0]}") from error
    except UnicodeDecodeError as error:
        raise InvalidOption(
            f"column {_not_text(table)!r} is no UTF-8 in a row: cast it to binary, or mend it"
        ) from error
    return rows


def _not_text(table: pa.RecordBatch) -> str:
    """The first column with texts that are none."""
    for name, column in zip(table.schema.names, table.columns, strict=True):
        try:
            column.to_pylist()
        except UnicodeDecodeError:
            return str(name)
    raise AssertionError("all of them are texts")


def _has_maps(kind: pa.DataType) -> bool:
    import pyarrow as pa

    inner = (kind.field(number).type for number in range(kind.num_fields))
    return pa.types.is_map(kind) or any(_has_maps(one) for one in inner)


def _has_odd_numbers(column: pa.Array) -> bool:
    """NaN or an infinity, anywhere in it: a look at whole columns, since rows hardly ever have one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_floating(kind):
        return pc.all(pc.is_finite(column)).as_py() is False
    if pa.types.is_struct(kind):
        return any(_has_odd_numbers(column.field(number)) for number in range(kind.num_fields))
    if pa.types.is_map(kind):
        return _has_odd_numbers(column.items)
    return pa.types.is_list(kind) and _has_odd_numbers(column.values)


def _finite(value: Any) -> Any:
    match value:
        case float():
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {key: _finite(one) for key, one in value.items()}
        case list():
            return [_finite(one) for one in value]
    return value


def _plain(value: object) -> object:
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    raise InvalidOption(f"a value of type {type(value).__name__} has no form in JSON")


_JSON: Final = msgspec.json.Encoder(enc_hook=_plain, decimal_format="number")
