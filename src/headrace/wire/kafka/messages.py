"""Every message that is not written by hand, by Kafka's own schemas, which kio carries as one dataclass per
structure and version. kio is imported on the first such message, because that takes as long as the whole
start of a node.

kio writes; reading is ours, driven by its dataclasses, since what is read comes from strangers:
- kio's reader allocates by an array's count before it looks at what follows, and a wrong count ends the
  process;
- it refuses tagged fields that it does not know, which newer clients may send; here they are stepped over.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Final
from uuid import UUID

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.primitives import MAX_ASKED, MAX_ELEMENTS, NIL_UUID, Reader

# Entities are kio's dataclasses; their types are known only where a file of `api/` names one.
Entity = Any
_Read = Callable[[Reader], Any]

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
NO_TIME: Final = datetime.timedelta(0)
_REQUEST, _RESPONSE = "request", "response"


def decode(api_key: int, version: int, buffer: Buffer, at: int, end: int) -> Entity:
    """The body of a request."""
    return _decoded(_REQUEST, api_key, version, buffer, at, end)


def decode_response(api_key: int, version: int, buffer: Buffer, at: int, end: int) -> Entity:
    """The body of an answer."""
    return _decoded(_RESPONSE, api_key, version, buffer, at, end)


def encode(entity: Entity, correlation_id: int) -> bytes:
    """A whole answer, with its size in front."""
    return header.answer(entity.__api_key__, entity.__version__, correlation_id, _written(entity))


def encode_request(entity: Entity, correlation_id: int, client_id: str | None) -> bytes:
    """A whole request, with its size in front."""
    return header.question(entity.__api_key__, entity.__version__, correlation_id, client_id, _written(entity))


def build(kind: Any, **fields: Any) -> Entity:
    """An entity of a structure, with those of the fields that its version has."""
    return kind(**{name: fields[name] for name in _names(kind) if name in fields})


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def time_of(milliseconds: int) -> datetime.datetime:
    """A time as the dataclasses have it."""
    return _EPOCH + _interval(milliseconds)


def error_code(code: int) -> Any:
    """A code as the dataclasses have it."""
    from headrace.wire.kafka.schemas import ErrorCode

    return ErrorCode(code)


@cache
def schema(side: str, api_key: int, version: int) -> Any:
    """The module that holds the dataclasses of one message."""
    import importlib

    from headrace.wire.kafka.schemas import load_request_schema, load_response_schema

    load = load_request_schema if side == _REQUEST else load_response_schema
    return importlib.import_module(load(api_key, version).__module__)


def _written(entity: Entity) -> bytes:
    from headrace.wire.kafka.schemas import entity_writer

    with io.BytesIO() as out:
        entity_writer(type(entity))(out, entity)
        return out.getvalue()


def _decoded(side: str, api_key: int, version: int, buffer: Buffer, at: int, end: int) -> Entity:
    read, flexible = _message(side, api_key, version)
    reader = Reader(buffer, at, end, flexible, MAX_ASKED if side == _REQUEST else MAX_ELEMENTS)
    try:
        entity = read(reader)
    except (ValueError, OverflowError) as error:  # an error code or a time that there is not
        raise MalformedRequest(f"api {api_key} version {version}: {error}") from error
    reader.finish()
    return entity


@cache
def _message(side: str, api_key: int, version: int) -> tuple[_Read, bool]:
    from headrace.wire.kafka.schemas import load_request_schema, load_response_schema

    kind = (load_request_schema if side == _REQUEST else load_response_schema)(api_key, version)
    return _entity(kind), kind.__flexible__


@cache
def _entity(kind: Any) -> _Read:
    """Reads one structure: its fields in order, then, where the version has them, its tagged fields."""
    fields: list[tuple[str, _Read]] = []
    tagged: dict[int, tuple[str, _Read]] = {}
    absent: dict[str, object] = {}
    for field in dataclasses.fields(kind):
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = (field.name, _field(field))
            absent[field.name] = _absent(field)
        else:
            fields.append((field.name, _field(field)))

    def read(reader: Reader) -> Any:
        values = dict(absent)
        for name, read_field in fields:
            values[name] = read_field(reader)
        for tag in reader.tags():
            if tag in tagged:
                name, read_field = tagged[tag]
                values[name] = read_field(reader)
        return kind(**values)

    return read


def _field(field: Any) -> _Read:
    kind, nullable = _without_null(field.type)
    if typing.get_origin(kind) is tuple:
        element = typing.get_args(kind)[0]
        if _is_structure(element):
            return _array(_entity(element), nullable)
        return _array(_PRIMITIVES[field.metadata["kafka_type"], False], nullable)
    if _is_structure(kind):
        return _nullable_entity(_entity(kind)) if nullable and "tag" not in field.metadata else _entity(kind)
    return _PRIMITIVES[field.metadata["kafka_type"], nullable]


def _is_structure(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind)


def _without_null(kind: Any) -> tuple[Any, bool]:
    if typing.get_origin(kind) not in (types.UnionType, typing.Union):
        return kind, False
    (one,) = (arg for arg in typing.get_args(kind) if arg is not types.NoneType)
    return one, True


def _array(one: _Read, nullable: bool) -> _Read:
    def read(reader: Reader) -> tuple[Any, ...] | None:
        rounds = reader.nullable_array() if nullable else reader.array()
        return None if rounds is None else tuple(one(reader) for _ in rounds)

    return read


def _nullable_entity(entity: _Read) -> _Read:
    def read(reader: Reader) -> Any:
        return None if reader.int8() < 0 else entity(reader)

    return read


def _absent(field: Any) -> object:
    """The value of a tagged field that was not sent."""
    if field.default is not dataclasses.MISSING:
        return field.default
    kind, nullable = _without_null(field.type)
    if nullable:
        return None
    if _is_structure(kind):
        return kind(**{inner.name: _absent(inner) for inner in dataclasses.fields(kind)})
    return _ZEROS.get(field.metadata["kafka_type"], 0)


def _bytes(reader: Reader) -> bytes:
    value = reader.nullable_bytes()
    if value is None:
        raise MalformedRequest("a null where bytes have to be")
    return value


def _uuid(reader: Reader) -> UUID | None:
    value = reader.uuid()
    return None if value == NIL_UUID else value


def _interval(milliseconds: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=milliseconds)


def _time(reader: Reader) -> datetime.datetime:
    return _EPOCH + _interval(reader.int64())


def _nullable_time(reader: Reader) -> datetime.datetime | None:
    milliseconds = reader.int64()
    return None if milliseconds == -1 else _EPOCH + _interval(milliseconds)


_PRIMITIVES: Final[dict[tuple[str, bool], _Read]] = {
    ("int8", False): Reader.int8,
    ("int16", False): Reader.int16,
    ("int32", False): Reader.int32,
    ("int64", False): Reader.int64,
    ("uint16", False): lambda reader: reader.int16() & 0xFFFF,
    ("float64", False): Reader.float64,
    ("bool", False): Reader.boolean,
    ("string", False): Reader.string,
    ("string", True): Reader.nullable_string,
    ("bytes", False): _bytes,
    ("bytes", True): Reader.nullable_bytes,
    ("records", False): _bytes,
    ("records", True): Reader.nullable_bytes,
    ("uuid", False): _uuid,
    ("uuid", True): _uuid,
    ("error_code", False): lambda reader: error_code(reader.int16()),
    ("timedelta_i32", False): lambda reader: _interval(reader.int32()),
    ("timedelta_i64", False): lambda reader: _interval(reader.int64()),
    ("datetime_i64", False): _time,
    ("datetime_i64", True): _nullable_time,
}

_ZEROS: Final[dict[str, object]] = {
    "string": "",
    "bytes": b"",
    "bool": False,
    "float64": 0.0,
    "timedelta_i32": _interval(0),
    "timedelta_i64": _interval(0),
    "datetime_i64": _EPOCH,
}
