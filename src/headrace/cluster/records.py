"""The metadata records: what one entry of the metadata log can say.

These are on disk forever. A field is only ever added, with a default; a kind is never reused; a program that meets a
kind it does not know refuses to start rather than to forget. One entry holds a list of records that commit together.
"""

from __future__ import annotations

import msgspec

from headrace.errors import FormatTooNew

METADATA_VERSION = 1
ALL_NODES = -1


class ClusterCreated(msgspec.Struct, frozen=True, tag="cluster-created"):
    cluster_id: str
    created_ms: int
    metadata_version: int = METADATA_VERSION


class NodeRegistered(msgspec.Struct, frozen=True, tag="node-registered"):
    """A node came up. Every partition that it leads gets its next leader epoch, so that a reader can tell that an
    unsynced tail of the time before may be gone."""

    node_id: int
    incarnation: int
    listeners: dict[str, str]
    rack: str | None = None


class TopicCreated(msgspec.Struct, frozen=True, tag="topic-created"):
    topic_id: bytes
    name: str
    assignments: list[list[int]]
    config: dict[str, str]
    created_ms: int = 0


class TopicDeleted(msgspec.Struct, frozen=True, tag="topic-deleted"):
    topic_id: bytes


class PartitionsAdded(msgspec.Struct, frozen=True, tag="partitions-added"):
    topic_id: bytes
    assignments: list[list[int]]


class TopicConfigured(msgspec.Struct, frozen=True, tag="topic-configured"):
    """None takes a setting back to its default."""

    topic_id: bytes
    changes: dict[str, str | None]


class NodesConfigured(msgspec.Struct, frozen=True, tag="nodes-configured"):
    """Settings of one node, or of all that have none of their own: `node_id` is then ALL_NODES. None takes a setting
    back."""

    node_id: int
    changes: dict[str, str | None]


class LeaderEpochBegun(msgspec.Struct, frozen=True, tag="leader-epoch-begun"):
    """A partition's log failed on its leader and is recovered in a new epoch, so that a reader can tell that an
    unsynced tail may be gone."""

    topic_id: bytes
    partition: int
    leader_epoch: int


class ProducerIdsReserved(msgspec.Struct, frozen=True, tag="producer-ids-reserved"):
    """Every id below `next_id` belongs to some node already."""

    node_id: int
    next_id: int


MetadataRecord = (
    ClusterCreated
    | NodeRegistered
    | TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | TopicConfigured
    | NodesConfigured
    | LeaderEpochBegun
    | ProducerIdsReserved
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[MetadataRecord])


def encode(records: list[MetadataRecord]) -> bytes:
    return _encoder.encode(records)


def decode(data: bytes) -> list[MetadataRecord]:
    try:
        return _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise FormatTooNew(
            f"the metadata log holds a record that this version does not know ({error}); run the version that wrote it"
        ) from error
