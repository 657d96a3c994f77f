"""Payloads and values: what is kept of a payload, and what a value of any protocol is as one.

A payload is kept as its JSON text in UTF-8. A value is shown as the JSON that it is, else as the text that it is, else
as {"base64": "..."}; null stays null. JSON means JSON: NaN and Infinity are none, nor is what is nested deeper than can
be read, or a number of more digits than Python takes.

Past LARGE_BYTES, arrays and objects are never made into Python's: a megabyte of small ones would be thirty in memory,
and seconds. They are checked and passed on as they are written.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TypeAlias

import msgspec

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

LARGE_BYTES = 128 << 10  # some ten milliseconds at worst

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_NOT_UTF8 = "it is not UTF-8 text"


def loads(data: bytes | str) -> Json:
    """ValueError: it is not JSON, and why."""
    try:
        found: Json = json.loads(data, parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise ValueError(_NOT_UTF8) from error
    except RecursionError:
        raise ValueError("it has too many brackets in brackets") from None
    return found


def value_of(payload: Json) -> bytes:
    try:
        return json.dumps(payload, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair by itself: only its escape is text
        return json.dumps(payload).encode()


def value_of_text(text: bytes) -> bytes:
    """The same from JSON text. ValueError: it is none, and why."""
    if len(text) <= LARGE_BYTES or text[:1] == b'"':
        return value_of(loads(text))
    return checked(text)


def shown(value: bytes | None) -> bytes:
    """A value as JSON text, with escapes for what is not ASCII."""
    if value is None:
        return b"null"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return dumps({"base64": base64.b64encode(value).decode()})
    try:
        if len(value) > LARGE_BYTES:
            return _NOT_ASCII.sub(_escaped, checked(value).decode()).encode()
        return dumps(loads(text))
    except (ValueError, RecursionError):  # not JSON; or readable, but too deep to be written again
        return dumps(text)


def dumps(value: Json) -> bytes:
    """As the original writes: ", " and ": " between, and escapes for what is not ASCII."""
    return json.dumps(value).encode()


def checked(text: bytes) -> bytes:
    """JSON text without the white space around it. ValueError: it is none, and why."""
    try:
        found = bytes(msgspec.json.decode(text, type=msgspec.Raw))
        found.decode()  # which the decoder leaves open where nothing is made of it
    except UnicodeDecodeError as error:
        raise ValueError(_NOT_UTF8) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return found


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is not JSON")
