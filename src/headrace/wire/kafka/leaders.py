"""Where a partition is led now: what Produce (from version 10) and Fetch (from 16) tell with
NOT_LEADER_OR_FOLLOWER, so that the client can go there without asking for metadata first. Tagged fields, so
both exist only in flexible encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from headrace.wire.kafka.primitives import Reader, array, string


class Leader(NamedTuple):
    node_id: int
    epoch: int


class Endpoint(NamedTuple):
    """The address of a leader that was named."""

    node_id: int
    host: str
    port: int
    rack: str | None


_LEADER = struct.Struct(">iix")
_INT32 = struct.Struct(">i")


def encode_leader(leader: Leader) -> bytes:
    return _LEADER.pack(*leader)


def read_leader(reader: Reader) -> Leader:
    leader = Leader(reader.int32(), reader.int32())
    reader.skip_tags()
    return leader


def encode_endpoints(endpoints: Sequence[Endpoint]) -> bytes:
    out = bytearray(array(len(endpoints), True))
    for node_id, host, port, rack in endpoints:
        out += _INT32.pack(node_id) + string(host, True) + _INT32.pack(port) + string(rack, True) + b"\0"
    return bytes(out)


def read_endpoints(reader: Reader) -> list[Endpoint]:
    endpoints = []
    for _ in reader.array():
        endpoints.append(Endpoint(reader.int32(), reader.string(), reader.int32(), reader.nullable_string()))
        reader.skip_tags()
    return endpoints
