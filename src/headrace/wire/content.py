"""A msgpack value as JSON, for doors that show JSON or text: what its header calls msgpack is no text, and read as such
a number could be taken for another (the byte of 49 is the digit 1).

Bytes stand as {"base64": "..."}, times as ISO text, other keys than text as JSON writes them. What JSON has no word for
(an extension, a not-a-number) and what is not msgpack after all stands whole as {"base64": "..."}.
"""

from __future__ import annotations

import base64
import json
from datetime import datetime

import msgspec

from headrace.records.record import Record

MSGPACK = ("content-type", b"application/msgpack")  # the header of values that came in as msgpack


def value_of(record: Record) -> bytes | None:
    """The record's value; of a msgpack one, JSON text."""
    value = record.value
    if value is None or MSGPACK not in record.headers:
        return value
    return json_text(value)


def text_of(record: Record) -> bytes | None:
    """The record's value; of a msgpack one the text that it is, else JSON text."""
    value = record.value
    if value is None or MSGPACK not in record.headers:
        return value
    return json_text(value, is_text_bare=True)


def json_text(data: bytes, *, is_text_bare: bool = False) -> bytes:
    try:
        value = msgspec.msgpack.decode(data)
        if is_text_bare and isinstance(value, str):
            return value.encode()
        return json.dumps(value, default=_other, allow_nan=False, ensure_ascii=False).encode()
    except (msgspec.DecodeError, RecursionError, TypeError, ValueError):
        return json.dumps(_base64(data)).encode()


def _other(value: object) -> object:
    if isinstance(value, bytes):
        return _base64(value)
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError


def _base64(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode()}
