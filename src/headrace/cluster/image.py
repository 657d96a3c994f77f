"""The image: what the metadata log says when it is read from its start to some entry.

`apply` is the only way that it changes, and it cannot fail for a record that the controller made. Equal logs give
equal images, on every node. `version` rises with every change, so that whoever caches something made from the image
can tell.
"""

from __future__ import annotations

from collections import deque
from typing import assert_never

import msgspec

from headrace.cluster.records import (
    ClusterCreated,
    LeaderEpochBegun,
    MetadataRecord,
    NodeRegistered,
    NodesConfigured,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)

GONE_TOPICS = 10_000  # remembered; who was away for longer leaves their folders to people


class PartitionImage(msgspec.Struct, array_like=True):
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int = 0


class TopicImage(msgspec.Struct):
    topic_id: bytes
    name: str
    partitions: list[PartitionImage]
    config: dict[str, str]
    created_ms: int = 0


class NodeImage(msgspec.Struct):
    node_id: int
    incarnation: int
    listeners: dict[str, str]
    rack: str | None = None


class _Saved(msgspec.Struct):
    """An image in a snapshot."""

    cluster_id: str
    metadata_version: int
    nodes: dict[int, NodeImage]
    topics: list[TopicImage]
    next_producer_id: int
    version: int
    node_configs: dict[int, dict[str, str]] = {}
    gone: list[tuple[bytes, str]] = []


class Image:
    def __init__(self) -> None:
        self.cluster_id = ""
        self.metadata_version = 0
        self.nodes: dict[int, NodeImage] = {}
        self.topics: dict[bytes, TopicImage] = {}
        self.names: dict[str, TopicImage] = {}
        self.partition_count = 0
        self.node_configs: dict[int, dict[str, str]] = {}  # by node; ALL_NODES for those without their own
        self.next_producer_id = 0
        self.gone: deque[tuple[bytes, str]] = deque(maxlen=GONE_TOPICS)  # ids and names of the topics deleted last
        self.version = 0

    def apply(self, record: MetadataRecord) -> None:
        self.version += 1
        match record:
            case ClusterCreated(cluster_id, _, metadata_version):
                self.cluster_id, self.metadata_version = cluster_id, metadata_version
            case NodeRegistered(node_id, incarnation, listeners, rack):
                self.nodes[node_id] = NodeImage(node_id, incarnation, listeners, rack)
                self._new_epochs(node_id)
            case TopicCreated():
                self._add(topic_image(record))
            case TopicDeleted(topic_id):
                topic = self.topics.pop(topic_id)
                del self.names[topic.name]
                self.partition_count -= len(topic.partitions)
                self.gone.append((topic_id, topic.name))
            case PartitionsAdded(topic_id, assignments):
                self.topics[topic_id].partitions.extend(_new(r) for r in assignments)
                self.partition_count += len(assignments)
            case TopicConfigured(topic_id, changes):
                _configure(self.topics[topic_id].config, changes)
            case NodesConfigured(node_id, changes):
                _configure(self.node_configs.setdefault(node_id, {}), changes)
            case LeaderEpochBegun(topic_id, partition, leader_epoch):
                self.topics[topic_id].partitions[partition].leader_epoch = leader_epoch
            case ProducerIdsReserved(_, next_id):
                self.next_producer_id = max(self.next_producer_id, next_id)
            case _:
                assert_never(record)

    def save(self) -> bytes:
        return msgspec.msgpack.encode(
            _Saved(
                self.cluster_id,
                self.metadata_version,
                self.nodes,
                list(self.topics.values()),
                self.next_producer_id,
                self.version,
                self.node_configs,
                list(self.gone),
            )
        )

    @classmethod
    def load(cls, data: bytes) -> Image:
        saved = msgspec.msgpack.decode(data, type=_Saved)
        image = cls()
        image.cluster_id, image.metadata_version = saved.cluster_id, saved.metadata_version
        image.nodes, image.next_producer_id = saved.nodes, saved.next_producer_id
        image.node_configs = saved.node_configs
        image.gone.extend(saved.gone)
        for topic in saved.topics:
            image._add(topic)
        image.version = saved.version
        return image

    def _add(self, topic: TopicImage) -> None:
        self.topics[topic.topic_id] = self.names[topic.name] = topic
        self.partition_count += len(topic.partitions)

    def _new_epochs(self, leader: int) -> None:
        for topic in self.topics.values():
            for partition in topic.partitions:
                if partition.leader == leader:
                    partition.leader_epoch += 1


def _configure(config: dict[str, str], changes: dict[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            config.pop(name, None)
        else:
            config[name] = value


def _new(replicas: list[int]) -> PartitionImage:
    return PartitionImage(list(replicas), list(replicas), replicas[0])


def topic_image(record: TopicCreated) -> TopicImage:
    partitions = [_new(replicas) for replicas in record.assignments]
    return TopicImage(record.topic_id, record.name, partitions, dict(record.config), record.created_ms)
