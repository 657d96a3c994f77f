"""What the client hands out: records, deliveries, and what administration tells. Values only, nothing is asked here."""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from headrace.records.ids import id_of
from headrace.records.record import Headers
from headrace.wire.kafka.names import from_kafka

CREATE_TIME: Final = "create"  # the producer said when
APPEND_TIME: Final = "append"  # the broker did


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class Record(NamedTuple):
    """A record as it was read. Null is told from empty; headers are in order and may repeat."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int

    @property
    def id(self) -> str:
        """Its header `id`, if that is text; else a name made of its topic, partition and offset, the same for
        everybody."""
        return id_of(from_kafka(self.topic), self.partition, self.offset, self.headers)


class Delivery(NamedTuple):
    """Where a record was written. The offset is -1 when the broker does not tell (acks=0, an old duplicate)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Time(NamedTuple):
    """A position: the first record of that time or later."""

    ms: int


class OffsetAt(NamedTuple):
    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


class ApiRange(NamedTuple):
    """The versions of a request that a broker takes."""

    min: int
    max: int


class Node(msgspec.Struct, frozen=True):
    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Cluster(msgspec.Struct, frozen=True):
    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]


class Partition(msgspec.Struct, frozen=True):
    index: int
    leader: int  # -1: none now
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Topic(msgspec.Struct, frozen=True):
    name: str
    topic_id: UUID | None
    internal: bool
    partitions: tuple[Partition, ...]


class Synonym(msgspec.Struct, frozen=True):
    """Where else a setting's value could come from, in the order in which they are asked."""

    name: str
    value: str | None
    source: str


class Setting(msgspec.Struct, frozen=True):
    name: str
    value: str | None
    source: str
    is_default: bool
    read_only: bool
    sensitive: bool
    type: str
    documentation: str | None
    synonyms: tuple[Synonym, ...]


class LogSize(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    size: int
    lag: int


class LogDir(msgspec.Struct, frozen=True):
    node_id: int
    path: str
    error: str | None
    total_bytes: int  # -1: not told
    usable_bytes: int
    partitions: tuple[LogSize, ...]


class QuorumMember(msgspec.Struct, frozen=True):
    node_id: int
    log_end_offset: int
    last_fetch_ms: int  # -1: not told
    last_caught_up_ms: int


class Quorum(msgspec.Struct, frozen=True):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...]
