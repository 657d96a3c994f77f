"""Avro, each value one datum without a container around it, by a schema that is given as JSON.

A writer that puts Confluent's five bytes in front (a zero and the schema's number in a registry) is read with
`prefix_bytes=5`; the number is not looked up, since the schema is here.
"""

from __future__ import annotations

import io
import json
from typing import Any, Final

import pyarrow as pa

from headrace.decoding.decoded import Decoded, Decoder, SchemaUnusable, by_rows

_PRIMITIVE: Final[dict[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Final[dict[str, pa.DataType]] = {  # of another type than these it means nothing
    "int-date": pa.date32(),
    "long-timestamp-millis": pa.timestamp("ms", "UTC"),
    "long-timestamp-micros": pa.timestamp("us", "UTC"),
    "long-local-timestamp-millis": pa.timestamp("ms"),
    "long-local-timestamp-micros": pa.timestamp("us"),
    "string-uuid": pa.string(),
    "fixed-uuid": pa.string(),
}
_DECIMALS: Final = ("bytes-decimal", "fixed-decimal")
_TIMES: Final = ("time-millis", "time-micros")  # of a day: the number since midnight, as Spark's own from_avro has it
MAX_PRECISION: Final = 38  # digits of a decimal, in a column as in Spark


def parsed(schema: str) -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise SchemaUnusable('Avro needs a library: pip install "headrace[avro]"') from error
    try:
        return fastavro.parse_schema(_with_plain_times(json.loads(schema)))
    except RecursionError as error:
        raise SchemaUnusable("this is not an Avro schema: it is nested too deeply") from error
    except KeyError as error:
        raise SchemaUnusable(f"this is not an Avro schema: a part of it has no {error}") from error
    except (ValueError, TypeError, AttributeError, fastavro.schema.SchemaParseException) as error:
        raise SchemaUnusable(f"this is not an Avro schema: {error}") from error


def _with_plain_times(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_plain_times(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = "logicalType" if schema.get("logicalType") in _TIMES else None
    return {name: _with_plain_times(part) for name, part in schema.items() if name != left_out}


def decoder(schema: str, prefix_bytes: int = 0) -> tuple[pa.DataType, Decoder]:
    """The column's type, and what decodes into it."""
    known = parsed(schema)
    kind = type_of(known)
    from fastavro import schemaless_reader

    def one(value: bytes) -> Any:
        stream = io.BytesIO(value)
        stream.seek(prefix_bytes)
        found = schemaless_reader(stream, known, None)
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes are left over")
        return str(found) if pa.types.is_string(kind) else _plain(found)

    def decode(raw: pa.Array) -> Decoded:
        return by_rows(raw, one, kind)

    return kind, decode


def _plain(found: Any) -> Any:
    """Maps as pairs, which is how Arrow takes them, happens by type; UUIDs become text."""
    import uuid

    if isinstance(found, dict):
        return {name: _plain(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_plain(value) for value in found]
    return str(found) if isinstance(found, uuid.UUID) else found


def type_of(schema: Any, named: dict[str, Any] | None = None, within: tuple[str, ...] = ()) -> pa.DataType:
    named = {} if named is None else named
    if isinstance(schema, list):
        return _union(schema, named, within)
    if isinstance(schema, str):
        if schema in _PRIMITIVE:
            return _PRIMITIVE[schema]
        if schema in within:
            raise SchemaUnusable(f"{schema!r} holds itself, and a column cannot")
        if schema not in named:
            raise SchemaUnusable(f"there is no type {schema!r} in the schema")
        return type_of(named[schema], named, within)
    kind = schema["type"]
    if "name" in schema:
        named[schema["name"]] = schema
    logical = f"{kind}-{schema.get('logicalType')}"
    if logical in _DECIMALS:
        return _decimal(schema)
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind in ("record", "error"):
        inner = (*within, schema["name"])
        return pa.struct([pa.field(field["name"], type_of(field["type"], named, inner)) for field in schema["fields"]])
    if kind == "enum":
        return pa.string()
    if kind == "fixed":
        return pa.binary()
    if kind == "array":
        if _is_empty(schema["items"], named):
            raise SchemaUnusable("an array of what takes no bytes is not read: a few bytes could announce any number")
        return pa.list_(type_of(schema["items"], named, within))
    if kind == "map":
        return pa.map_(pa.string(), type_of(schema["values"], named, within))
    return type_of(kind, named, within)


def _is_empty(schema: Any, named: dict[str, Any]) -> bool:
    """Does it take no bytes at all? What holds itself takes some."""
    if isinstance(schema, str):
        return schema == "null" or (schema in named and _is_empty(named[schema], named))
    if isinstance(schema, list):
        return False
    match schema["type"]:
        case "record" | "error":
            return all(_is_empty(field["type"], named) for field in schema["fields"])
        case "fixed":
            return bool(schema["size"] == 0)
    return bool(schema["type"] == "null")


def _decimal(schema: dict[str, Any]) -> pa.DataType:
    precision = schema.get("precision")
    if not isinstance(precision, int) or not 1 <= precision <= MAX_PRECISION:
        given = "none" if precision is None else str(precision)
        raise SchemaUnusable(f"a decimal needs a precision from 1 to {MAX_PRECISION}; the schema gives {given}")
    return pa.decimal128(precision, schema.get("scale", 0))


def _union(schema: list[Any], named: dict[str, Any], within: tuple[str, ...]) -> pa.DataType:
    others = [one for one in schema if one != "null"]
    if len(others) != 1:
        raise SchemaUnusable("a union of several types has no column; one of null and one type has")
    return type_of(others[0], named, within)
