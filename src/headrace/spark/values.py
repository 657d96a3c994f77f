"""`value.format`: values decoded into typed columns while they are read.

`value` has its type then, and two columns stand beside it: `value_raw`, the bytes, and `value_error`, why, of those
that could not be decoded; both null for all others. So a bad value is never lost, and never stops a query.

Where the type comes from: the user's own schema of the DataFrame, `value.schema`, or, for JSON and msgpack, a look at
the first values. Where values have a type of their own (Avro, Protobuf, text) the user's schema is a projection of it
(projection.py). Files that `value.schema` names are read where the query is planned, and travel with it.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from headrace.spark.errors import InvalidOption
from headrace.spark.lookup import CLIENT_ID
from headrace.spark.options import SourceOptions
from headrace.spark.projection import check as check_projection

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.decoding.decoded import Decoder

RAW, ERROR = "value_raw", "value_error"
BESIDE: Final = [StructField(RAW, BinaryType()), StructField(ERROR, StringType())]
OF_THEIR_OWN: Final = ("text", "avro", "protobuf")  # formats whose values have a type, whatever the user's schema says
INLINE: Final = ("{", "[", '"')  # how an Avro schema begins, and the name of a file does not
SAMPLE_ROWS: Final = 1000
SAMPLE_BYTES: Final = 32 << 20  # of values, which may be large: fewer of them do then
SAMPLE_S: Final = 5.0


def value_type(options: SourceOptions) -> DataType:
    """Of the column `value`, when the user's schema does not say it."""
    from pyspark.sql.pandas.types import from_arrow_type

    if options.value_format in OF_THEIR_OWN:
        return from_arrow_type(_of_its_own(options)[0])
    if options.value_schema is not None:
        return _spark_type(options.value_schema)
    return from_arrow_type(_sampled(options))


def check(options: SourceOptions, schema: StructType) -> None:
    """A schema that the user gave: can values be read so?"""
    if options.value_format in OF_THEIR_OWN and "value" in schema.fieldNames():
        check_projection(value_type(options), schema["value"].dataType)


def decoder(options: SourceOptions, kind: pa.DataType) -> Decoder:
    """Into a column of this type."""
    import headrace.decoding.json
    import headrace.decoding.msgpack
    from headrace.decoding.decoded import cast

    match options.value_format:
        case "json":
            return headrace.decoding.json.decoder(kind)
        case "msgpack":
            return headrace.decoding.msgpack.decoder(kind)
    own, decode = _of_its_own(options)
    return decode if own == kind else lambda raw: cast(decode(raw), kind)


def _of_its_own(options: SourceOptions) -> tuple[pa.DataType, Decoder]:
    """The type, and what decodes into it."""
    from headrace.decoding import avro, protobuf, text

    schema = options.value_schema or ""
    match options.value_format:
        case "text":
            return text.decoder()
        case "avro":
            return avro.decoder(schema)
    if options.value_message is None:
        raise InvalidOption("value.format=protobuf needs value.message, the full name of the message")
    try:
        content = base64.b64decode(schema, validate=True)
    except ValueError as error:
        raise InvalidOption("value.schema of Protobuf is a file of descriptors, or such a file in base64") from error
    return protobuf.decoder(content, options.value_message)


def loaded(schema: str | None, value_format: str | None) -> str | None:
    """What `value.schema` says, or what is in the file that it names."""
    if schema is None or value_format not in ("avro", "protobuf"):
        return schema
    try:  # os.path: what is too long for a name is no file, and no error
        content = Path(schema).read_bytes() if os.path.isfile(schema) else None
    except OSError as error:
        raise InvalidOption(f"value.schema {schema!r} cannot be read: {error.strerror}") from error
    if content is None:
        if value_format == "avro" and not schema.lstrip().startswith(INLINE):
            raise InvalidOption(
                f"value.schema {schema!r:.200} is not an Avro schema in JSON, and there is no such file"
            )
        return schema
    if value_format == "protobuf":
        return base64.b64encode(content).decode()
    try:
        return content.decode("utf-8-sig")  # some editors put a mark in front
    except UnicodeDecodeError as error:
        raise InvalidOption(f"value.schema {schema!r} is not an Avro schema in JSON: the file is not UTF-8") from error


def _spark_type(schema: str) -> DataType:
    """Spark's own JSON of a type. A line of DDL needs Java to be read, and there is none here."""
    try:
        return StructType.fromJson(json.loads(schema))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        advice = 'give it as .schema("value struct<id:bigint>, …"), or as the JSON of a StructType'
        raise InvalidOption(f"value.schema is not the JSON of a Spark schema; {advice}") from error


def _sampled(options: SourceOptions) -> pa.DataType:
    import pyarrow as pa

    import headrace.decoding.json
    import headrace.decoding.msgpack
    from headrace.spark.lookup import Lookup

    lookup = Lookup(options)
    try:
        topics = sorted(lookup.topics())
    finally:
        lookup.close()
    found: list[pa.Array] = []
    rows = size = 0
    with headrace.connect(options.servers, CLIENT_ID, options.timeout) as client:
        if topics:
            with client.columns(*topics, columns=["value"], follow=False, isolation=options.isolation) as reader:
                while rows < SAMPLE_ROWS and size < SAMPLE_BYTES and (table := reader.take(SAMPLE_S)) is not None:
                    found.append(table.column("value"))
                    rows, size = rows + table.num_rows, size + table.nbytes
    if not rows:
        raise InvalidOption(f"{options.shown} is empty, so that no schema can be seen in it: give a schema")
    kind = headrace.decoding.json if options.value_format == "json" else headrace.decoding.msgpack
    return kind.sampled(pa.concat_arrays(found)[:SAMPLE_ROWS])
