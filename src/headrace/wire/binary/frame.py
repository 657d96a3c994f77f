"""A frame of the binary protocol, and its bytes.

    total_length u32 | type u32 | sequence_number u64 | timestamp u64 (ms) | P u32 | B u32 | properties (P) | body (B)

All integers are big-endian; total_length counts all of it, 32 + P + B. Properties are `key=value`, each followed by
one zero byte, in their order; a value may hold `=`, a key may not, and neither a zero. Whoever builds a frame adds
`created_at` (seconds, as Python writes a float) and `version`, unless they are given.

There is a second layout on paper, with B behind the properties instead of before them. It is understood (decoder.py)
and never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from headrace.errors import HeadraceError

HEAD = Struct(">IIQQII")
HEAD_BYTES = HEAD.size  # 32
VERSION = "1.0"
MAX_U64 = (1 << 64) - 1


class MalformedFrame(HeadraceError):
    """Bytes that are no frame: nothing after them can be understood, and the connection is closed."""


class Type(IntEnum):
    DATA = 1
    ACK = 2
    HEARTBEAT = 3
    CREATE_TOPIC = 4
    SUBSCRIBE = 5
    UNSUBSCRIBE = 6
    PUBLISH = 7


TYPES = frozenset(map(int, Type))

Properties = Mapping[str, str]


class Frame(NamedTuple):
    type: int
    sequence: int
    timestamp_ms: int
    properties: dict[str, str]
    body: bytes = b""
    size: int = 0  # of the whole frame as it came, when it came


def encode(type_: int, sequence: int, timestamp_ms: int, properties: Properties, body: bytes = b"") -> bytes:
    block = "".join([f"{key}={value}\0" for key, value in properties.items()]).encode()
    size = len(block)
    total = HEAD_BYTES + size + len(body)
    return HEAD.pack(total, type_, sequence, timestamp_ms, size, len(body)) + block + body


def build(type_: int, sequence: int, timestamp_ms: int, properties: dict[str, str], body: bytes = b"") -> bytes:
    """As `encode`, with what every frame ends with. The properties given get it too."""
    complete(properties, timestamp_ms)
    return encode(type_, sequence, timestamp_ms, properties, body)


def complete(properties: dict[str, str], timestamp_ms: int) -> None:
    if "created_at" not in properties:
        properties["created_at"] = repr(timestamp_ms / 1000)
    if "version" not in properties:
        properties["version"] = VERSION


def can_carry(key: str, value: str) -> bool:
    """Whether a property comes out as it went in: there is no escaping."""
    return "=" not in key and "\0" not in key and "\0" not in value


def size_of(properties: Properties, body_bytes: int) -> int:
    """Of the whole frame, in bytes."""
    return HEAD_BYTES + sum(len(f"{key}={value}".encode()) + 1 for key, value in properties.items()) + body_bytes


def parse_properties(block: bytes) -> dict[str, str]:
    """What has no `=` is passed over; of a key that comes twice, the last value counts, in the first's place."""
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        raise MalformedFrame(f"properties that are not UTF-8: {error.reason} at byte {error.start}") from error
    pairs = text.removesuffix("\0").split("\0")
    try:
        return dict([pair.split("=", 1) for pair in pairs])  # each has two parts, or:
    except ValueError:
        return dict([pair.split("=", 1) for pair in pairs if "=" in pair])
