"""The controller: pure decisions. An image and a wish in, the records that fulfil it out, or an error that says why
not.

Nothing here writes, waits or looks at a clock or at chance: ids and times come in from outside, so that a run can be
replayed.
"""

from __future__ import annotations

import msgspec

from headrace.cluster.image import Image
from headrace.cluster.records import (
    ALL_NODES,
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
from headrace.errors import (
    InvalidPartitions,
    InvalidReplication,
    InvalidTopicName,
    LimitReached,
    TopicExists,
    UnknownNode,
    UnknownTopicId,
)

MAX_TOPIC_NAME_BYTES = 249  # Kafka's, so that a folder name still fits 255 bytes
PRODUCER_ID_BLOCK = 1000  # ids taken at a time: one entry of the metadata log per thousand producers


class Limits(msgspec.Struct, frozen=True):
    max_partitions: int = 20_000  # of all topics together; one node was tried with 10,000
    max_partitions_per_topic: int = 10_000


class NewTopic(msgspec.Struct, frozen=True):
    topic_id: bytes
    name: str
    partitions: int
    replication: int = 1
    assignments: list[list[int]] | None = None
    config: dict[str, str] = {}


def check_topic_name(name: str) -> None:
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= MAX_TOPIC_NAME_BYTES:
        raise InvalidTopicName(f"a topic name has 1 to {MAX_TOPIC_NAME_BYTES} bytes, this one has {size}")
    if name in (".", ".."):
        raise InvalidTopicName(f"a topic cannot be called {name!r}")
    if any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in name):
        raise InvalidTopicName("a topic name is UTF-8 text without control characters")


def create_topic(image: Image, topic: NewTopic, limits: Limits, now_ms: int) -> list[TopicCreated]:
    check_topic_name(topic.name)
    if topic.name in image.names:
        raise TopicExists(f"topic {topic.name!r} exists already")
    count = len(topic.assignments) if topic.assignments else topic.partitions
    _check_room(image, count, count, limits)
    assignments = topic.assignments or _place(image, count, topic.replication)
    _check_assignments(image, assignments, len(assignments[0]))
    return [TopicCreated(topic.topic_id, topic.name, assignments, topic.config, now_ms)]


def add_partitions(
    image: Image, topic_id: bytes, total: int, assignments: list[list[int]] | None, limits: Limits
) -> list[PartitionsAdded]:
    """`assignments`: of the new partitions alone; None leaves their place to us."""
    topic = image.topics.get(topic_id)
    if topic is None:
        raise UnknownTopicId("no such topic")
    added = total - len(topic.partitions)
    if added <= 0:
        raise InvalidPartitions(f"topic {topic.name!r} has {len(topic.partitions)} partitions; {total} is not more")
    _check_room(image, added, total, limits)
    replication = len(topic.partitions[0].replicas)
    if assignments is None:
        assignments = _place(image, added, replication, len(topic.partitions))
    elif len(assignments) != added:
        raise InvalidReplication(f"{added} partitions are to be added, and {len(assignments)} are assigned")
    _check_assignments(image, assignments, replication)
    return [PartitionsAdded(topic_id, assignments)]


def delete_topic(image: Image, topic_id: bytes) -> list[MetadataRecord]:
    if topic_id not in image.topics:
        raise UnknownTopicId("no such topic")
    return [TopicDeleted(topic_id)]


def configure_topic(image: Image, topic_id: bytes, changes: dict[str, str | None]) -> list[MetadataRecord]:
    if topic_id not in image.topics:
        raise UnknownTopicId("no such topic")
    return [TopicConfigured(topic_id, changes)] if changes else []


def configure_nodes(image: Image, node_id: int, changes: dict[str, str | None]) -> list[MetadataRecord]:
    if node_id != ALL_NODES and node_id not in image.nodes:
        raise UnknownNode(f"there is no node {node_id}")
    return [NodesConfigured(node_id, changes)] if changes else []


def register_node(image: Image, node_id: int, listeners: dict[str, str], rack: str | None) -> list[MetadataRecord]:
    known = image.nodes.get(node_id)
    return [NodeRegistered(node_id, known.incarnation + 1 if known else 1, listeners, rack)]


def begin_epoch(image: Image, topic_id: bytes, index: int) -> list[MetadataRecord]:
    """Nothing for a topic that was deleted meanwhile."""
    topic = image.topics.get(topic_id)
    if topic is None:
        return []
    return [LeaderEpochBegun(topic_id, index, topic.partitions[index].leader_epoch + 1)]


def reserve_producer_ids(image: Image, node_id: int) -> list[MetadataRecord]:
    return [ProducerIdsReserved(node_id, image.next_producer_id + PRODUCER_ID_BLOCK)]


def _place(image: Image, partitions: int, replication: int, first: int = 0) -> list[list[int]]:
    """Round-robin over the nodes, each next partition starting one node further. `first`: the first's number."""
    nodes = sorted(image.nodes)
    if partitions < 1:
        raise InvalidPartitions(f"a topic has at least one partition, not {partitions}")
    if not 1 <= replication <= len(nodes):
        raise InvalidReplication(f"replication factor {replication} needs as many nodes; there are {len(nodes)}")
    return [[nodes[(i + r) % len(nodes)] for r in range(replication)] for i in range(first, first + partitions)]


def _check_assignments(image: Image, assignments: list[list[int]], replication: int) -> None:
    for replicas in assignments:
        if not replicas or len(set(replicas)) != len(replicas):
            raise InvalidReplication(f"an assignment names each of its nodes once, not {replicas}")
        if unknown := [node for node in replicas if node not in image.nodes]:
            raise InvalidReplication(f"there is no node {unknown[0]}")
        if len(replicas) != replication:
            raise InvalidReplication("every partition of a topic has the same number of replicas")


def _check_room(image: Image, added: int, in_topic: int, limits: Limits) -> None:
    if in_topic > limits.max_partitions_per_topic:
        raise InvalidPartitions(f"a topic has at most {limits.max_partitions_per_topic} partitions, not {in_topic}")
    if image.partition_count + added > limits.max_partitions:
        raise LimitReached(f"the cluster holds at most {limits.max_partitions} partitions (max_partitions)")
