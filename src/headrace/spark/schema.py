"""The columns in Spark's types, those of its own Kafka source.

A user's schema is a projection: the columns it names, in its order, are read, and nothing else crosses to Java.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.spark.errors import InvalidOption

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}
DECODED: Final[dict[str, DataType]] = {**TYPES, "value_raw": BinaryType(), "value_error": StringType()}
CLIENT_NAMES: Final = {"timestampType": "timestamp_type"}  # where the client's column has another name


def spark_schema(with_headers: bool) -> StructType:
    return StructType([StructField(name, kind) for name, kind in TYPES.items() if with_headers or name != "headers"])


def check(schema: StructType, *, is_decoded: bool = False) -> None:
    """A schema that the user gave. `is_decoded`: values have a type of their own, and errors stand beside them."""
    if not schema.fields:
        raise InvalidOption(f"a schema without columns reads nothing; there are {', '.join(TYPES)}")
    names = schema.fieldNames()
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise InvalidOption(f"the schema has the column {twice[0]!r} twice: name each column once")
    for field in schema.fields:
        if is_decoded and field.name == "value":
            continue
        known = (DECODED if is_decoded else TYPES).get(field.name)
        if known is None:
            raise InvalidOption(f"there is no column {field.name!r}; there are {', '.join(TYPES)}")
        if _plain(known) != _plain(field.dataType):
            raise InvalidOption(
                f"column {field.name!r} is {known.simpleString()} and cannot be read as {field.dataType.simpleString()}"
            )


def _plain(kind: DataType) -> str:
    return kind.simpleString()


def client_names(schema: StructType) -> list[str]:
    """The client's columns that are read for it."""
    names = [CLIENT_NAMES.get(name, name) for name in schema.fieldNames()]
    return list(dict.fromkeys("value" if name in ("value_raw", "value_error") else name for name in names))
