"""`value.format`: values decoded into typed columns while they are read.

`value` has its type then, and two columns stand beside it: `value_raw`, the bytes, and `value_error`, why, of those
that could not be decoded; both null for all others. So a bad value is never lost, and never stops a query.

Where the type comes from: the user's own schema of the DataFrame, `value.schema`, or, for JSON and msgpack, a look at
the first values. Files that `value.schema` names are read where the query is planned, and travel with it.
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

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.decoding.decoded import Decoder

RAW, ERROR = "value_raw", "value_error"
BESIDE: Final = [StructField(RAW, BinaryType()), StructField(ERROR, StringType())]
SAMPLE_ROWS: Final = 1000
SAMPLE_S: Final = 5.0


def value_type(options: SourceOptions) -> DataType:
    """Of the column `value`, when the user's schema does not say it."""
    from pyspark.sql.pandas.types import from_arrow_type

    match options.value_format:
        case "text":
            return StringType()
        case "avro" | "protobuf":
            return from_arrow_type(_by_schema(options)[0])
    if options.value_schema is not None:
        return _spark_type(options.value_schema)
    return from_arrow_type(_sampled(options))


def decoder(options: SourceOptions, kind: pa.DataType) -> Decoder:
    """Into a column of this type."""
    import headrace.decoding.json
    import headrace.decoding.msgpack
    import headrace.decoding.text
    from headrace.decoding.decoded import Decoded

    match options.value_format:
        case "text":
            return headrace.decoding.text.decode
        case "json":
            return headrace.decoding.json.decoder(kind)
        case "msgpack":
            return headrace.decoding.msgpack.decoder(kind)
    own, decode = _by_schema(options)

    def cast(raw: pa.Array) -> Decoded:
        values, errors = decode(raw)
        return Decoded(values if own == kind else values.cast(kind), errors)

    return cast


def _by_schema(options: SourceOptions) -> tuple[pa.DataType, Decoder]:
    from headrace.decoding import avro, protobuf

    schema = options.value_schema or ""
    if options.value_format == "avro":
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
        return schema
    return content.decode() if value_format == "avro" else base64.b64encode(content).decode()


def _spark_type(schema: str) -> DataType:
    """Spark's own JSON of a type. A line of DDL needs Java to be read, and there is none here."""
    try:
        return StructType.fromJson(json.loads(schema))
    except (ValueError, KeyError, TypeError) as error:
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
    rows = 0
    with headrace.connect(options.servers, CLIENT_ID, options.timeout) as client:
        if topics:
            with client.columns(*topics, columns=["value"], follow=False, isolation=options.isolation) as reader:
                while rows < SAMPLE_ROWS and (table := reader.take(SAMPLE_S)) is not None:
                    found.append(table.column("value"))
                    rows += table.num_rows
    if not rows:
        raise InvalidOption(f"{options.shown} is empty, so that no schema can be seen in it: give a schema")
    kind = headrace.decoding.json if options.value_format == "json" else headrace.decoding.msgpack
    return kind.sampled(pa.concat_arrays(found)[:SAMPLE_ROWS])
