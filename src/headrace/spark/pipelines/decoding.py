"""Records' values as columns, in each format that the source has.

JSON is decoded by Spark itself, the other formats by the source, while it reads. Whatever decodes, a row that does not
is kept, with its bytes and the reason; who does not set such rows aside ([deadletter]) stops at the first of them.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import ParseException
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines.settings import Settings, Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamReader

REASON: Final = "_reason"
RAW: Final = "_value"  # what was to be decoded, for who sets it aside
RECORD: Final = ("key", "topic", "partition", "offset", "timestamp")
HEADERS: Final = "_headers"  # of the record, for who sets it aside
BY_SOURCE: Final = ("avro", "protobuf", "msgpack", "text")
INLINE: Final = ("{", "[", '"')  # how an Avro schema begins, and the name of a file does not
_CORRUPT: Final = "_corrupt"
_PARTS, _MARK = "_parts", "_mark"  # of a JSON value on its way through Spark
_NONE: Final = "the record has no value"


def told(reader: DataStreamReader, settings: Settings, source: Source) -> DataStreamReader:
    """The source is told what it is to decode."""
    if source.format not in BY_SOURCE:
        return reader
    reader = reader.option("value.format", source.format)
    if settings.deadletter is not None and (settings.deadletter.checks or len(settings.steps) > 1):
        reader = reader.option("value.raw", "all")  # a row that decodes may fail a check, and goes aside as it came
    if source.message:
        reader = reader.option("value.message", source.message)
    if not source.schema:
        return reader
    own = schema_of(source.schema).json() if source.format == "msgpack" else loaded(source)
    return reader.option("value.schema", own)


def decoded(frame: DataFrame, settings: Settings, source: Source) -> DataFrame:
    if source.format == "raw":
        return frame.withColumnRenamed("headers", HEADERS)
    record = [sf.col(name).alias(f"_{name}") for name in (*RECORD, "headers") if name in frame.columns]
    if source.format in BY_SOURCE:
        kind = frame.schema["value"].dataType
        names = kind.names if isinstance(kind, StructType) else []
        _check_names(names)
        alone = sf.col("value").alias("text" if source.format == "text" else "value")
        columns = [sf.col(f"value.`{name}`").alias(name) for name in names] or [alone]
        why = sf.coalesce(sf.col("value_error"), sf.when(sf.col("value").isNull(), sf.lit(_NONE)))
        return frame.select(*columns, *record, sf.col("value_raw").alias(RAW), why.alias(REASON))
    schema = schema_of(source.schema) if source.schema else _sampled(settings, source)
    mark = secrets.token_hex(8)  # that no value has in it
    frame = frame.withColumn("_parsed", _parsed(schema, mark))
    columns = [_part(1, name).alias(name) for name in schema.names]
    return frame.select(*columns, *record, sf.col("value").alias(RAW), _why_not_json(mark).alias(REASON))


def _parsed(schema: StructType, mark: str) -> Column:
    """Spark reads the first object of a text and leaves the rest, and the rest would be lost in silence. So a value is
    read between two marks, as the second of three: what is not one whole object does not leave the three so."""
    part = StructType([*schema.fields, StructField(_MARK, StringType())])
    whole = StructType([StructField(_PARTS, ArrayType(part)), StructField(_CORRUPT, StringType())])
    marked = f'{{"{_MARK}": "{mark}"}}'
    value = sf.col("value").cast("string")
    text = sf.concat(sf.lit(f'{{"{_PARTS}": [{marked}, '), value, sf.lit(f", {marked}]}}"))
    return sf.from_json(text, whole, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})


def _part(place: int, name: str) -> Column:
    return sf.get(sf.col(f"_parsed.{_PARTS}"), sf.lit(place)).getField(name)


def _why_not_json(mark: str) -> Column:
    parts = sf.col(f"_parsed.{_PARTS}")
    is_one = (sf.size(parts) == 3) & (_part(0, _MARK) == mark) & (_part(2, _MARK) == mark)
    is_one = is_one & sf.get(parts, sf.lit(1)).isNotNull()
    return (
        sf.when(sf.col("value").isNull(), sf.lit(_NONE))
        .when(~sf.is_valid_utf8(sf.col("value").cast("string")), sf.lit("the value is not UTF-8"))
        .when(sf.col(f"_parsed.{_CORRUPT}").isNotNull(), sf.lit("the value is not JSON of the schema"))
        .when(~sf.coalesce(is_one, sf.lit(False)), sf.lit("the value is not one JSON object"))
    )


def schema_of(text: str) -> StructType:
    try:
        schema = StructType.fromDDL(text)
    except ParseException as error:
        raise InvalidOption(f"[source] schema {text!r} is none: {str(error).strip().splitlines()[0]}") from None
    if not isinstance(schema, StructType):
        raise InvalidOption(f'[source] schema {text!r} is one type; columns are written as "id string, amount double"')
    _check_names(schema.names)
    return schema


def _sampled(settings: Settings, source: Source) -> StructType:
    """As the first values of the topics are; times stay text, since a guess may be wrong."""
    from headrace.spark.options import source_options
    from headrace.spark.values import value_type

    which = {"subscribe": source.topic} if source.topic else {"subscribePattern": source.pattern}
    options = source_options({"servers": settings.servers, "value.format": "json", **which}, is_stream=True)
    found = value_type(options)
    assert isinstance(found, StructType)  # of JSON objects nothing else comes
    _check_names(found.names)
    return found


def loaded(source: Source) -> str:
    """What the schema says: read here, since Spark may plan elsewhere."""
    from headrace.spark import values

    is_inline = source.format == "avro" and source.schema.lstrip().startswith(INLINE)
    if not is_inline and not Path(source.schema).is_file():
        raise InvalidOption(f"[source] schema {source.schema!r}: there is no such file")
    return values.loaded(source.schema, source.format) or ""


def _check_names(names: list[str]) -> None:
    own = [name for name in names if name.startswith("_")]
    if own:
        raise InvalidOption(f"[source] schema: {own[0]!r} begins with _, as the columns of the record do")
