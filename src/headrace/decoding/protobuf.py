"""Protobuf, by a file of descriptors (`protoc --include_imports --descriptor_set_out`) and the name of a message.

What a message has without saying so (numbers and text of proto3) has its default; what was left out and can be told
from it (optional fields, messages) is null. Enumerations are their names, unsigned 64-bit numbers decimals.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from headrace.decoding.decoded import Decoded, Decoder, SchemaUnusable, by_rows

_TYPES: Final[dict[str, pa.DataType]] = {
    "double": pa.float64(),
    "float": pa.float32(),
    "int64": pa.int64(),
    "sint64": pa.int64(),
    "sfixed64": pa.int64(),
    "uint64": pa.decimal128(20, 0),
    "fixed64": pa.decimal128(20, 0),
    "int32": pa.int32(),
    "sint32": pa.int32(),
    "sfixed32": pa.int32(),
    "uint32": pa.int64(),
    "fixed32": pa.int64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
}
# By the number that a descriptor has for them.
_NAMES: Final = dict(
    enumerate(
        "double float int64 uint64 int32 fixed64 fixed32 bool string group message bytes uint32 enum sfixed32 sfixed64"
        " sint32 sint64".split(),
        1,
    )
)


def decoder(descriptors: bytes, message: str) -> tuple[pa.DataType, Decoder]:
    """The column's type, and what decodes into it."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise SchemaUnusable('Protobuf needs a library: pip install "headrace[protobuf]"') from error
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
            pool.Add(file)
        known = pool.FindMessageTypeByName(message)
    except DecodeError as error:
        raise SchemaUnusable("these are no descriptors; protoc --descriptor_set_out writes them") from error
    except (KeyError, TypeError) as error:
        raise SchemaUnusable(f"there is no message {message!r} in the descriptors: {error}") from error
    kind, parser = _struct(known, ()), message_factory.GetMessageClass(known)

    def one(value: bytes) -> Any:
        try:
            return _row(parser.FromString(value))
        except DecodeError as error:
            raise ValueError(str(error)) from error

    def decode(raw: pa.Array) -> Decoded:
        return by_rows(raw, one, kind)

    return kind, decode


def _struct(message: Any, within: tuple[str, ...]) -> pa.DataType:
    if message.full_name in within:
        raise SchemaUnusable(f"{message.full_name!r} holds itself, and a column cannot")
    inner = (*within, message.full_name)
    return pa.struct([pa.field(field.name, _field(field, inner)) for field in message.fields])


def _field(field: Any, within: tuple[str, ...]) -> pa.DataType:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return pa.map_(_one(entry["key"], within), _one(entry["value"], within))
    kind = _one(field, within)
    return pa.list_(kind) if field.is_repeated else kind


def _one(field: Any, within: tuple[str, ...]) -> pa.DataType:
    name = _NAMES[field.type]
    return _struct(field.message_type, within) if name in ("message", "group") else _TYPES[name]


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _row(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            found[field.name] = None
            continue
        value = getattr(message, field.name)
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            found[field.name] = [(key, _content(inner, one)) for key, one in value.items()]
        elif field.is_repeated:
            found[field.name] = [_content(field, one) for one in value]
        else:
            found[field.name] = _content(field, value)
    return found


def _content(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _row(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    return value
