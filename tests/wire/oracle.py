"""kio, generated from Kafka's own schemas, as the judge of our hand-written codecs.

`entities` makes random messages of a schema; `written` is what kio writes for one. The tests want the same
bytes from ours, and the same values from those bytes.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import random
import types
import typing
import uuid
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_ERRORS = list(ErrorCode)


def schema(api_key: int, version: int, side: str) -> type:
    return load_request_schema(api_key, version) if side == "request" else load_response_schema(api_key, version)


def entities(kind: type, seed: int, count: int) -> list[Any]:
    rng = random.Random(seed)
    return [_entity(kind, rng) for _ in range(count)]


def written(entity: Any) -> bytes:
    with io.BytesIO() as out:
        entity_writer(type(entity))(out, entity)
        return out.getvalue()


def milliseconds(value: datetime.timedelta | datetime.datetime | None) -> int:
    if value is None:
        return -1
    if isinstance(value, datetime.datetime):
        value = value - EPOCH
    return value // datetime.timedelta(milliseconds=1)


def _entity(kind: type, rng: random.Random) -> Any:
    return kind(**{field.name: _value(field, rng) for field in dataclasses.fields(kind)})


def _value(field: Any, rng: random.Random) -> Any:
    if "tag" in field.metadata and field.default is not dataclasses.MISSING and rng.random() < 0.5:
        return field.default
    kind, nullable = field.type, False
    if isinstance(kind, types.UnionType):
        nullable = True
        (kind,) = (one for one in typing.get_args(kind) if one is not types.NoneType)
    if nullable and rng.random() < 0.3:
        return None
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        return tuple(_one(inner, field, rng, False) for _ in range(rng.choice((0, 1, 1, 2, 5))))
    return _one(kind, field, rng, nullable)


def _one(kind: type, field: Any, rng: random.Random, nullable: bool) -> Any:
    if dataclasses.is_dataclass(kind):
        return _entity(kind, rng)
    return _primitive(field.metadata["kafka_type"], rng)


def _primitive(kafka_type: str, rng: random.Random) -> Any:
    if kafka_type in _BITS:
        top = 1 << _BITS[kafka_type]
        return rng.choice((0, 1, -1, top - 1, -top, rng.randrange(-top, top)))
    if kafka_type == "string":
        return "".join(rng.choices("abcéß漢\U0001f600 ._-", k=rng.choice((0, 1, 7, 126, 127, 200))))
    if kafka_type in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 1, 61, 127, 128, 20000)))
    if kafka_type == "uint16":
        return rng.randrange(1 << 16)
    if kafka_type == "float64":
        return rng.random()
    if kafka_type == "uuid":
        return uuid.UUID(bytes=rng.randbytes(16))
    if kafka_type == "bool":
        return rng.random() < 0.5
    if kafka_type == "error_code":
        return rng.choice(_ERRORS)
    if kafka_type.startswith("timedelta"):
        return datetime.timedelta(milliseconds=rng.choice((0, 1, rng.randrange(1 << 31))))
    assert kafka_type == "datetime_i64", kafka_type
    return EPOCH + datetime.timedelta(milliseconds=rng.choice((0, 1, rng.randrange(1 << 41))))


def changed(entity: Any, **values: Any) -> Any:
    return dataclasses.replace(entity, **values)


def defaults(kind: type) -> dict[str, Any]:
    fields = dataclasses.fields(kind)
    return {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
