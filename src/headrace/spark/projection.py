"""The type of `value` that a user asks for beside the one that Avro, Protobuf or text gives it: fields may be left out,
or stand in another order, and numbers, times and texts be read as others of their kind.

That is judged before anything is read, in a sentence. What is left to the rows is whether a value fits: a number that
is too large is a bad value, and stands beside the others.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.spark.errors import InvalidOption

KINDS: Final = (NumericType, (StringType, BinaryType), (TimestampType, TimestampNTZType))


def check(own: DataType, wanted: DataType, column: str = "value") -> None:
    """Can what is of its own type be read as the other?"""
    match own, wanted:
        case StructType(), StructType():
            for field in wanted.fields:
                if field.name not in own.names:
                    there = ", ".join(own.names)
                    raise InvalidOption(
                        f"column {column!r} has no field {field.name!r} by its format; there are {there}"
                    )
                check(own[field.name].dataType, field.dataType, f"{column}.{field.name}")
        case ArrayType(), ArrayType():
            check(own.elementType, wanted.elementType, f"{column}.element")
        case MapType(), MapType():
            check(own.keyType, wanted.keyType, f"{column}.key")
            check(own.valueType, wanted.valueType, f"{column}.value")
        case _:
            if not _is_readable(own, wanted):
                words = f"is {own.simpleString()} by its format and cannot be read as {wanted.simpleString()}"
                raise InvalidOption(f"column {column!r} {words}")


def _is_readable(own: DataType, wanted: DataType) -> bool:
    if own == wanted or isinstance(own, NullType):
        return True
    return any(isinstance(own, kind) and isinstance(wanted, kind) for kind in KINDS) and _has_cast(own, wanted)


def _has_cast(own: DataType, wanted: DataType) -> bool:
    """Of Arrow: whole numbers, for example, become only decimals that have room for all of them."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        pa.nulls(1, to_arrow_type(own)).cast(to_arrow_type(wanted))
    except pa.ArrowException:
        return False
    return True
