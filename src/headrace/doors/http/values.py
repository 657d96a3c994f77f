"""Records as JSON, and JSON as records.

In: a value is any JSON and is kept as its text, without the spaces around its parts. A header's text is kept as it is;
of a header that is no text the JSON is kept, and one header of ours (`JSON_HEADERS`) names those, so that they come
back as they were and other doors still read plain text.
Out: a value is JSON if it parses, else text, else `{"base64": …}`. A header that is there several times is a list.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from headrace.errors import InvalidRecord
from headrace.records.ids import id_of
from headrace.records.record import Headers, Record
from headrace.wire import content

JSON_HEADERS = "headrace-json"
_COMPACT = -1
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_decode, _encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
_names = msgspec.json.Decoder(list[str])


class Shown(msgspec.Struct, omit_defaults=True):
    """A record on its way out."""

    offset: int
    ts_ms: int
    key: str | dict[str, str] | None
    value: Any
    headers: dict[str, Any]
    partition: int | msgspec.UnsetType = msgspec.UNSET
    id: str | msgspec.UnsetType = msgspec.UNSET


# In


def json_text(raw: msgspec.Raw | bytes) -> bytes:
    """The value's JSON; InvalidRecord when it is none."""
    text = bytes(raw)
    try:
        _decode(text)
        return msgspec.json.format(text, indent=_COMPACT)
    except _NO_JSON as error:
        raise InvalidRecord(f"the value is no JSON: {error}") from error


def bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRecord(f"value_base64 is no base64: {error}") from error


def headers_of(given: Mapping[str, Any]) -> Headers:
    if not given:
        return ()
    headers: list[tuple[str, bytes | None]] = []
    marked: list[str] = []
    for name, value in given.items():
        if name == JSON_HEADERS:
            continue
        name.encode()  # half a character is refused here, not when the batch is made
        if isinstance(value, str):
            headers.append((name, value.encode()))
        elif value is None:
            headers.append((name, None))
        else:
            headers.append((name, _encode(value)))
            marked.append(name)
    if marked:
        headers.append((JSON_HEADERS, _encode(marked)))
    return tuple(headers)


# Out


def shown(
    record: Record, partition: int | msgspec.UnsetType = msgspec.UNSET, id_: str | msgspec.UnsetType = msgspec.UNSET
) -> Shown:
    key = record.key
    return Shown(
        record.offset,
        record.timestamp_ms,
        None if key is None else text_of(key),
        value_of(content.value_of(record)),
        _shown_headers(record.headers) if record.headers else {},
        partition,
        id_,
    )


def encoded(records: Iterable[Record], partition: int | msgspec.UnsetType) -> list[msgspec.Raw]:
    """Each by itself as JSON, as a poll has it."""
    return [msgspec.Raw(_encode(shown(record, partition))) for record in records]


def identified(topic: str, partition: int, record: Record, *, names_partition: bool = True) -> bytes:
    """As JSON, with what it is called."""
    name = id_of(topic, partition, record.offset, record.headers)
    return _encode(shown(record, partition if names_partition else msgspec.UNSET, name))


def value_of(value: bytes | None) -> Any:
    """Something that is encoded to what is shown."""
    if value is None:
        return None
    try:
        _decode(value)
    except _NO_JSON:
        return text_of(value)
    if b"\n" in value or b"\r" in value:  # between its parts: a line of ours holds a whole record
        value = msgspec.json.format(value, indent=_COMPACT)
    return msgspec.Raw(value)


def text_of(raw: bytes) -> str | dict[str, str]:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def _shown_headers(headers: Headers) -> dict[str, Any]:
    marked: Iterable[str] = ()
    found: dict[str, list[Any]] = {}
    for name, value in headers:
        if name == JSON_HEADERS and value is not None:
            marked = _marked(value)
        else:
            found.setdefault(name, []).append(value)
    return {
        name: _shown_header(values[0], name in marked)
        if len(values) == 1
        else [_shown_header(value, name in marked) for value in values]
        for name, values in found.items()
    }


def _shown_header(value: bytes | None, is_json: bool) -> Any:
    if value is None:
        return None
    return value_of(value) if is_json else text_of(value)


def _marked(value: bytes) -> Iterable[str]:
    try:
        return frozenset(_names.decode(value))
    except _NO_JSON:
        return ()
