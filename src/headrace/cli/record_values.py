"""A record as JSON, both ways: what `consume -o jsonl` prints, `produce --format jsonl` takes.

Keys, values and headers are bytes. Where they are UTF-8 they stand as text, else as `{"base64": "…"}`; null is null and
empty is "". So what is read and sent again is the same to the byte.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.cli.exits import Refusal, usage
from headrace.cli.parsing import show_time
from headrace.records.record import NO_TIMESTAMP

if TYPE_CHECKING:
    from headrace.client.values import Record

Headers = tuple[tuple[str, bytes | None], ...]
ALSO_KNOWN = {"topic", "offset", "timestamp", "timestamp_type", "leader_epoch"}  # of consume; of no use to produce


class Base64(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    base64: str


Text = str | Base64 | None


class Header(msgspec.Struct, frozen=True):
    name: str
    value: Text


class RecordRow(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int
    id: str
    timestamp_ms: int
    timestamp: str
    timestamp_type: str
    key: Text
    value: Text
    headers: tuple[Header, ...]


class Sending(msgspec.Struct, frozen=True):
    """A record that is to be sent. None: the client chooses (partition), or the broker (time)."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def row_of(record: Record) -> RecordRow:
    return RecordRow(
        record.topic,
        record.partition,
        record.offset,
        record.id,
        record.timestamp_ms,
        show_time(record.timestamp_ms),
        record.timestamp_type,
        text_of(record.key),
        text_of(record.value),
        tuple(Header(name, text_of(value)) for name, value in record.headers),
    )


def text_of(data: bytes | None) -> Text:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Base64(base64.b64encode(data).decode())


def sending_of(line: bytes, number: int) -> Sending:
    """The record in one line of JSON; a refusal names the line."""
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(number, f"is not JSON: {error}") from None
    if not isinstance(found, dict) or "value" not in found:
        raise _bad(number, "is no record: a record is an object with a value")
    known = ALSO_KNOWN | {"id"} if "offset" in found else ALSO_KNOWN  # a record's own id stands in its headers
    if strange := found.keys() - {"key", "value", "headers", "partition", "timestamp_ms"} - known:
        raise _bad(number, f"has a field {min(strange)!r} that a record does not have")
    partition = found.get("partition")
    if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool) or partition < 0):
        raise _bad(number, f"has a partition that is no number from 0: {partition!r}")
    return Sending(
        value=_bytes(found["value"], number),
        key=_bytes(found.get("key"), number),
        headers=_headers(found.get("headers"), number),
        partition=partition,
        timestamp_ms=_time(found.get("timestamp_ms", found.get("timestamp")), number),
    )


def _bytes(value: Any, number: int) -> bytes | None:
    """Text as UTF-8; what is neither text, null nor base64 stays the JSON that it is."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise _bad(number, f"has base64 that is none: {error}") from None
    return msgspec.json.encode(value)


def _headers(value: Any, number: int) -> Headers:
    """A list of names with values, in order; an object will do where no name repeats."""
    if value is None:
        return ()
    if isinstance(value, dict):
        return tuple((name, _bytes(item, number)) for name, item in value.items())
    try:
        return tuple((header["name"], _bytes(header["value"], number)) for header in value)
    except (TypeError, KeyError):
        raise _bad(number, 'has headers that are neither {"name": "value"} nor [{"name": …, "value": …}]') from None


def _time(value: Any, number: int) -> int | None:
    if value is None or value == NO_TIMESTAMP:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    try:
        return int(datetime.fromisoformat(value).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        raise _bad(number, f"has a timestamp that is neither milliseconds nor a date: {value!r}") from None


def _bad(number: int, words: str) -> Refusal:
    return usage(f"line {number} {words}", 'a line reads {"key": "k", "value": "v", "headers": {"h": "x"}}')
