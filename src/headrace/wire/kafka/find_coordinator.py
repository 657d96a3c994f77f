"""FindCoordinator, 0 to 6, by hand: every consumer with a group, and every transactional producer, begins with it.

What each version added: 1 the kind of coordinator, a text and throttling, 3 flexible encoding, 4 several keys at once,
6 share groups.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.primitives import MAX_ASKED, Reader, array, string

OLDEST: Final = 0
NEWEST: Final = 6
SEVERAL_FROM: Final = 4
_FLEXIBLE: Final = 3

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class FindCoordinatorRequest(NamedTuple):
    keys: Sequence[str]
    kind: int = 0


class Coordinator(NamedTuple):
    key: str
    node_id: int
    host: str
    port: int
    error: int = 0
    message: str | None = None


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> FindCoordinatorRequest:
    reader = Reader(buffer, at, end, version >= _FLEXIBLE, MAX_ASKED)
    keys = [reader.string()] if version < SEVERAL_FROM else []
    kind = reader.int8() if version >= 1 else 0
    if version >= SEVERAL_FROM:
        keys = [reader.string() for _ in reader.array()]
    reader.skip_tags()
    reader.finish()
    return FindCoordinatorRequest(keys, kind)


def encode_response(version: int, correlation_id: int, found: Sequence[Coordinator]) -> bytes:
    """A whole answer; before version 4 there is exactly one coordinator in it."""
    flexible = version >= _FLEXIBLE
    out = bytearray(_INT32.pack(0) if version >= 1 else b"")
    if version < SEVERAL_FROM:
        (one,) = found
        out += _INT16.pack(one.error)
        if version >= 1:
            out += string(one.message, flexible)
        out += _INT32.pack(one.node_id) + string(one.host, flexible) + _INT32.pack(one.port)
    else:
        out += array(len(found), flexible)
        for one in found:
            out += string(one.key, flexible) + _INT32.pack(one.node_id) + string(one.host, flexible)
            out += _INT32.pack(one.port) + _INT16.pack(one.error) + string(one.message, flexible) + b"\0"
    if flexible:
        out += b"\0"
    return header.answer(header.FIND_COORDINATOR, version, correlation_id, out)
