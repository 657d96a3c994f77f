"""Records' values as columns, in each format that the source has.

The source decodes them while it reads: strictly, so that no value becomes another. A row that does not decode is kept,
with its bytes and the reason; who does not set such rows aside ([deadletter]) stops at the first of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import ParseException
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines.settings import Settings, Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamReader

REASON: Final = "_reason"
RAW: Final = "_value"  # what was to be decoded, for who sets it aside
RECORD: Final = ("key", "topic", "partition", "offset", "timestamp")
HEADERS: Final = "_headers"  # of the record, for who sets it aside
PLAIN: Final = (StringType, BinaryType, BooleanType, NumericType, DateType, TimestampType, TimestampNTZType)
_NONE: Final = "the value is null"


def told(reader: DataStreamReader, settings: Settings, source: Source) -> DataStreamReader:
    """The source is told what it is to decode."""
    if source.format == "raw":
        return reader
    reader = reader.option("value.format", source.format)
    if settings.deadletter is not None:
        reader = reader.option("value.raw", "all")  # a row that decodes may fail a check, and goes aside as it came
    if source.message:
        reader = reader.option("value.message", source.message)
    if source.format in ("json", "msgpack"):
        schema = schema_of(source.schema) if source.schema else _sampled(settings, source)
        return reader.option("value.schema", schema.toNullable().json())
    return reader.option("value.schema", loaded(source)) if source.schema else reader


def decoded(frame: DataFrame, source: Source) -> DataFrame:
    if source.format == "raw":
        return frame
    record = [sf.col(name).alias(f"_{name}") for name in (*RECORD, "headers") if name in frame.columns]
    kind = frame.schema["value"].dataType
    names = kind.names if isinstance(kind, StructType) else []
    _check_names(names)
    alone = sf.col("value").alias("text" if source.format == "text" else "value")
    columns = [sf.col("value").getField(name).alias(name) for name in names] or [alone]
    return frame.select(*columns, *record, sf.col("value_raw").alias(RAW), _why_not(source).alias(REASON))


def _why_not(source: Source) -> Column:
    raw, error = sf.col("value_raw"), sf.col("value_error")
    if source.format == "json":
        is_no_text = error.isNotNull() & ~sf.is_valid_utf8(raw.cast("string"))
        said = sf.concat(sf.lit("the value is not JSON of the schema: "), error)
        error = sf.when(is_no_text, sf.lit("the value is not UTF-8")).otherwise(said)
    return sf.coalesce(error, sf.when(sf.col("value").isNull(), sf.lit(_NONE)))


def schema_of(text: str) -> StructType:
    try:
        schema = StructType.fromDDL(text)
    except ParseException as error:
        raise InvalidOption(f"[source] schema {text!r} is none: {str(error).strip().splitlines()[0]}") from None
    if not isinstance(schema, StructType):
        raise InvalidOption(f'[source] schema {text!r} is one type; columns are written as "id string, amount double"')
    _check_names(schema.names)
    for field in schema.fields:
        _check_type(field.name, field.dataType)
    return schema


def _check_type(column: str, kind: DataType) -> None:
    match kind:
        case StructType():
            for field in kind.fields:
                _check_type(f"{column}.{field.name}", field.dataType)
        case ArrayType():
            _check_type(column, kind.elementType)
        case MapType(keyType=StringType()):
            _check_type(column, kind.valueType)
        case _ if not isinstance(kind, PLAIN):
            raise InvalidOption(f"[source] schema: {column!r} is {kind.simpleString()}, which no value becomes")


def _sampled(settings: Settings, source: Source) -> StructType:
    """As the first values of the topics are; times stay text, since a guess may be wrong."""
    from headrace.spark.options import source_options
    from headrace.spark.values import value_type

    which = {"subscribe": source.topic} if source.topic else {"subscribePattern": source.pattern}
    options = source_options({"servers": settings.servers, "value.format": source.format, **which}, is_stream=True)
    found = value_type(options)
    assert isinstance(found, StructType)  # of objects nothing else comes
    return found


def loaded(source: Source) -> str:
    """What the schema says: read here, since Spark may plan elsewhere."""
    from headrace.spark import values

    is_inline = source.format == "avro" and source.schema.lstrip().startswith(values.INLINE)
    if not is_inline and not Path(source.schema).is_file():
        raise InvalidOption(f"[source] schema {source.schema!r}: there is no such file")
    return values.loaded(source.schema, source.format) or ""


def _check_names(names: list[str]) -> None:
    own = [name for name in names if name.startswith("_")]
    if own:
        raise InvalidOption(f"[source] schema: {own[0]!r} begins with _, as the columns of the record do")
