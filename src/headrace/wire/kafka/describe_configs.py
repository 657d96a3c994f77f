"""Answers to DescribeConfigs, 1 to 4, by hand: tools ask for the settings of all topics at once, and again and again.

The answer is made of parts, so that topics with the same settings share their bytes. What each version added: 3 the
kind of a value and what it does; 4 flexible encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.wire.kafka import header
from headrace.wire.kafka.primitives import array, string

OLDEST: Final = 1
NEWEST: Final = 4
DOCUMENTATION_FROM: Final = 3
_FLEXIBLE: Final = 4

_NO_TIME: Final = bytes(4)
_ENTRY = struct.Struct(">?b?")
_ERROR = struct.Struct(">h")
_INT8 = struct.Struct(">b")


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: int


class Entry(NamedTuple):
    name: str
    value: str | None
    read_only: bool
    source: int
    is_sensitive: bool
    synonyms: Sequence[Synonym]
    kind: int
    documentation: str | None


def encode_entries(version: int, entries: Sequence[Entry]) -> bytes:
    """All settings of one resource."""
    flexible = version >= _FLEXIBLE
    out = bytearray(array(len(entries), flexible))
    for name, value, read_only, source, is_sensitive, synonyms, kind, documentation in entries:
        out += string(name, flexible)
        out += string(value, flexible)
        out += _ENTRY.pack(read_only, source, is_sensitive)
        out += array(len(synonyms), flexible)
        for synonym in synonyms:
            out += string(synonym.name, flexible)
            out += string(synonym.value, flexible)
            out += _INT8.pack(synonym.source)
            if flexible:
                out += b"\0"
        if version >= DOCUMENTATION_FROM:
            out += _INT8.pack(kind)
            out += string(documentation, flexible)
        if flexible:
            out += b"\0"
    return bytes(out)


def encode_result(version: int, error: int, message: str | None, kind: int, name: str, entries: bytes) -> bytes:
    """One resource, with what `encode_entries` made for the same version."""
    flexible = version >= _FLEXIBLE
    said = _ERROR.pack(error) + string(message, flexible)
    tags = b"\0" if flexible else b""
    return b"".join((said, _INT8.pack(kind), string(name, flexible), entries, tags))


def encode_response(version: int, correlation_id: int, results: Sequence[bytes]) -> bytes:
    flexible = version >= _FLEXIBLE
    body = b"".join((_NO_TIME, array(len(results), flexible), *results, b"\0" if flexible else b""))
    return header.answer(header.DESCRIBE_CONFIGS, version, correlation_id, body)
