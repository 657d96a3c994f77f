"""A document to a request, or to the words that refuse it; and a request to its document, for the client.

The keys are type, topic_name, partition, payload and offset. A partition is a number, or a text that is one: the
original took both. `acks` (0, 1, a number of replicas, "all"), `with_offset`, ranges (ranges.py) and the type
create_topic are ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from headrace.wire.json import ranges
from headrace.wire.json.brackets import depth
from headrace.wire.json.values import LARGE_BYTES, Json, loads, value_of, value_of_text
from headrace.wire.ranges import PAGE_RECORDS, Range

MAX_PARTITION = (1 << 31) - 1
# Of brackets in brackets: reading and writing recurse, and Python lets them do so a thousand times. A large request, of
# which nothing is made, has the bound of its checker, about as many.
MAX_DEPTH = 500
MAX_FIELD_BYTES = 4096  # of anything but the payload in a large request: a topic's name has at most 249


class Publish(NamedTuple):
    topic: str
    partition: int
    shown: str  # the partition as the request wrote it: the reply repeats it
    value: bytes  # the payload as it is kept
    acks: int | str | None = None
    is_replica: bool = False  # only the words of the reply differ


class Consume(NamedTuple):
    topic: str
    partition: int
    offset: int = 0  # less than 0: from the end, -1 is the last
    with_offset: bool = False  # the reply says where the record was, and one before the start gives the first


class CreateTopic(NamedTuple):
    topic: str
    partitions: int


class Refused(NamedTuple):
    why: str


Request = Publish | Consume | Range | CreateTopic | Refused


def parse(document: bytes) -> Request:
    try:
        found, value = _read(document) if len(document) <= LARGE_BYTES else _read_large(document)
    except ValueError as error:
        return Refused(f"the request is not JSON: {error}")
    if not isinstance(found, dict):
        return Refused("a request is a JSON object")
    match found.get("type"):
        case "publish":
            return _publish(found, value, False)
        case "replicate":
            return _publish(found, value, True)
        case "consume":
            return _consume(found)
        case "create_topic":
            return _create_topic(found)
        case _:
            return Refused("Unknown request type")


def _read(document: bytes) -> tuple[Json, bytes | None]:
    """What it says, and the payload as it is kept."""
    if document.count(b"[") + document.count(b"{") > MAX_DEPTH and depth(document) > MAX_DEPTH:
        raise ValueError(f"it has more than {MAX_DEPTH} brackets in brackets")
    found = loads(document)
    has_payload = isinstance(found, dict) and "payload" in found
    return found, value_of(found["payload"]) if isinstance(found, dict) and has_payload else None


class _Fields(msgspec.Struct, rename={"from_": "from"}):
    """A large request in pieces: nothing is made of them before their sizes are known. Others are passed over."""

    type: msgspec.Raw = msgspec.Raw()
    topic_name: msgspec.Raw = msgspec.Raw()
    partition: msgspec.Raw = msgspec.Raw()
    offset: msgspec.Raw = msgspec.Raw()
    acks: msgspec.Raw = msgspec.Raw()
    with_offset: msgspec.Raw = msgspec.Raw()
    from_: msgspec.Raw = msgspec.Raw()
    to: msgspec.Raw = msgspec.Raw()
    since: msgspec.Raw = msgspec.Raw()
    until: msgspec.Raw = msgspec.Raw()
    limit: msgspec.Raw = msgspec.Raw()
    page: msgspec.Raw = msgspec.Raw()
    last: msgspec.Raw = msgspec.Raw()
    payload: msgspec.Raw = msgspec.Raw()


def _read_large(document: bytes) -> tuple[Json, bytes | None]:
    try:
        fields = msgspec.json.decode(document, type=_Fields)
    except msgspec.ValidationError:
        return [], None  # no object
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    found: dict[str, Json] = {}
    _add_fields(found, fields, ("type", "topic_name", "partition", "offset", "acks", "with_offset"))
    if found.get("type") == "consume":  # elsewhere keys of these names mean nothing
        _add_fields(found, fields, ranges.NAMES)
    payload = bytes(fields.payload)
    return found, value_of_text(payload) if payload else None


def _add_fields(found: dict[str, Json], fields: _Fields, names: Iterable[str]) -> None:
    for name in names:
        text = bytes(getattr(fields, "from_" if name == "from" else name))
        if len(text) > MAX_FIELD_BYTES:
            raise ValueError(f"{name} has {len(text)} bytes")
        if text:
            found[name] = loads(text)


def encode(
    kind: str, topic: str, partition: int, payload: Json = None, offset: int | None = None, **more: int | str
) -> bytes:
    """The keys in the order of the original, `offset` only if it is given."""
    request: dict[str, Json] = {"type": kind, "topic_name": topic, "partition": partition, "payload": payload}
    if offset is not None:
        request["offset"] = offset
    return json.dumps(request | more).encode()


def encode_range(topic: str, **asked: Json) -> bytes:
    """Without what is None; with a limit where nothing else says that this is a range."""
    given = {name.rstrip("_"): value for name, value in asked.items() if value is not None}
    if not ranges.is_range(given):
        given["limit"] = PAGE_RECORDS
    return json.dumps({"type": "consume", "topic_name": topic, **given}).encode()


def _publish(found: dict[str, Json], value: bytes | None, is_replica: bool) -> Request:
    topic, partition = _topic(found), _number(found.get("partition", 0))
    if topic is None:
        return _NO_TOPIC
    if partition is None or not 0 <= partition <= MAX_PARTITION:
        return _NO_PARTITION
    acks = found.get("acks")
    if value is None:
        return Refused("there is no payload; null, false, 0 and empty ones are payloads like any other")
    if acks is not None and (isinstance(acks, bool) or not isinstance(acks, int | str)):
        return Refused('acks is 0, 1, a number of replicas or "all"')
    return Publish(topic, partition, str(found.get("partition", 0)), value, acks, is_replica)


def _consume(found: dict[str, Json]) -> Request:
    topic, partition = _topic(found), _number(found.get("partition", 0))
    if topic is None:
        return _NO_TOPIC
    if partition is None or not 0 <= partition <= MAX_PARTITION:
        return _NO_PARTITION
    if ranges.is_range(found):
        try:
            return ranges.asked(topic, partition if "partition" in found else None, found)
        except ValueError as error:
            return Refused(str(error))
    offset = found.get("offset", 0)
    if isinstance(offset, bool) or not isinstance(offset, int):
        return Refused("offset is a whole number; less than 0 counts from the end")
    with_offset = found.get("with_offset", False)
    if not isinstance(with_offset, bool):
        return Refused("with_offset is true or false")
    return Consume(topic, partition, offset, with_offset)


def _create_topic(found: dict[str, Json]) -> Request:
    topic, partitions = _topic(found), _number(found.get("partition", 1))
    if topic is None:
        return _NO_TOPIC
    if partitions is None or not 1 <= partitions <= MAX_PARTITION:
        return Refused("partition is the number of partitions, at least 1")
    return CreateTopic(topic, partitions)


def _topic(found: dict[str, Json]) -> str | None:
    topic = found.get("topic_name")
    return topic if isinstance(topic, str) else None


def _number(value: Json) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(MAX_PARTITION)):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_NO_TOPIC = Refused("topic_name is the name of a topic")
_NO_PARTITION = Refused("partition is a whole number from 0 on")
