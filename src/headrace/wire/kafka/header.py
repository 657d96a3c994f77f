"""Headers of requests and answers.

A request's header says by (api key, version) how it goes on itself: flexible versions have tagged fields
after the client id, which keeps its old 2-byte length in every version. An answer's header has tagged fields
in flexible versions too, but never that of ApiVersions: a client reads it before it knows what the broker
speaks.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from headrace.ports import Buffer
from headrace.wire.kafka import primitives
from headrace.wire.kafka.errors import MalformedRequest

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
DESCRIBE_GROUPS: Final = 15
LIST_GROUPS: Final = 16
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DELETE_RECORDS: Final = 21
INIT_PRODUCER_ID: Final = 22
OFFSET_FOR_LEADER_EPOCH: Final = 23
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
WRITE_TXN_MARKERS: Final = 27
TXN_OFFSET_COMMIT: Final = 28
DESCRIBE_CONFIGS: Final = 32
ALTER_CONFIGS: Final = 33
ALTER_REPLICA_LOG_DIRS: Final = 34
DESCRIBE_LOG_DIRS: Final = 35
CREATE_PARTITIONS: Final = 37
DELETE_GROUPS: Final = 42
ELECT_LEADERS: Final = 43
INCREMENTAL_ALTER_CONFIGS: Final = 44
ALTER_PARTITION_REASSIGNMENTS: Final = 45
LIST_PARTITION_REASSIGNMENTS: Final = 46
OFFSET_DELETE: Final = 47
DESCRIBE_QUORUM: Final = 55
UPDATE_FEATURES: Final = 57
DESCRIBE_CLUSTER: Final = 60
DESCRIBE_PRODUCERS: Final = 61
UNREGISTER_BROKER: Final = 64
DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66
LIST_CONFIG_RESOURCES: Final = 74
DESCRIBE_TOPIC_PARTITIONS: Final = 75

# Kafka's own has none, and newer ones will hardly have this many.
MAX_HEADER_TAGS: Final = 100

# The first flexible version of each api. Those from 50 on came after flexible versions did, but for two of
# the quorum's.
_NEVER: Final = 1 << 15
FLEXIBLE_FROM: Final[dict[int, int]] = dict.fromkeys(range(50, 93), 0) | {
    0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 17: _NEVER, 18: 3,
    19: 5, 20: 4, 21: 2, 22: 2, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 29: 2, 30: 2, 31: 2, 32: 4, 33: 2,
    34: 2, 35: 2, 36: 2, 37: 2, 38: 2, 39: 2, 40: 2, 41: 2, 42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 47: _NEVER,
    48: 1, 49: 1, 53: 1, 54: 1,
}  # fmt: skip

_FIXED = struct.Struct(">hhih")
_INT32 = struct.Struct(">i")


class RequestHeader(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    end: int  # where the body begins


def is_flexible(api_key: int, version: int) -> bool:
    return version >= FLEXIBLE_FROM.get(api_key, _NEVER)


def read_header(buffer: Buffer, at: int, end: int) -> RequestHeader:
    try:
        api_key, version, correlation_id, size = _FIXED.unpack_from(buffer, at)
        at += 10
        client_id = None
        if size >= 0:
            client_id = str(buffer[at : at + size], "utf-8")
            at += size
        elif size != -1:
            raise MalformedRequest(f"a client id of {size} bytes")
        if version >= FLEXIBLE_FROM.get(api_key, _NEVER):
            at = at + 1 if buffer[at] == 0 else primitives.skip_tags(buffer, at, end, MAX_HEADER_TAGS)[0]
    except primitives.READ_ERRORS as error:
        raise MalformedRequest(f"a request header that cannot be read: {error}") from error
    if at > end:
        raise MalformedRequest("a request header that runs past the end of its frame")
    return RequestHeader(api_key, version, correlation_id, client_id, at)


def request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    raw = None if client_id is None else client_id.encode()
    fixed = _FIXED.pack(api_key, version, correlation_id, -1 if raw is None else len(raw))
    return fixed + (raw or b"") + (b"\0" if is_flexible(api_key, version) else b"")


def response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    plain = api_key == API_VERSIONS or not is_flexible(api_key, version)
    return _INT32.pack(correlation_id) + (b"" if plain else b"\0")


def read_response_header(buffer: Buffer, at: int, end: int, api_key: int, version: int) -> tuple[int, int]:
    """The correlation id, and where the body begins."""
    reader = primitives.Reader(buffer, at, end, api_key != API_VERSIONS and is_flexible(api_key, version))
    correlation_id = reader.int32()
    reader.skip_tags()
    return correlation_id, reader.at


def answer(api_key: int, version: int, correlation_id: int, body: Buffer) -> bytes:
    """A whole answer: size, header, body."""
    head = response_header(api_key, version, correlation_id)
    return b"".join((_INT32.pack(len(head) + len(body)), head, body))


def question(api_key: int, version: int, correlation_id: int, client_id: str | None, body: Buffer) -> bytes:
    """A whole request: size, header, body."""
    head = request_header(api_key, version, correlation_id, client_id)
    return b"".join((_INT32.pack(len(head) + len(body)), head, body))
