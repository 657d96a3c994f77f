"""Metadata, 0 to 13, by hand: the second thing that every client asks, and with many partitions the largest.

The answer is made of parts, so that a broker can keep the encoded topics and join them: only a topic's own
change makes its bytes again. What each version added: 1 racks, the controller, internal topics, null for
"all"; 2 the cluster's id; 3 throttling; 4 the wish to create; 5 offline replicas; 7 leader epochs; 8 to 10
authorised operations; 9 flexible encoding; 10 topic ids; 12 asking by id; 13 an error for the whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.primitives import MAX_ASKED, NIL_UUID, Reader, array, string

OLDEST: Final = 0
NEWEST: Final = 13
FLEXIBLE: Final = 9
_IDS: Final = 10
_BY_ID: Final = 12
_CLUSTER_OPERATIONS: Final = range(8, 11)

NOT_ASKED: Final = -(1 << 31)  # for authorised operations: nobody wanted to know

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_PARTITION_0 = struct.Struct(">hii")
_PARTITION_7 = struct.Struct(">hiii")


class AskedTopic(NamedTuple):
    name: str | None
    topic_id: UUID | None  # None unless it is asked for by its id


class MetadataRequest(NamedTuple):
    topics: Sequence[AskedTopic] | None  # None is all
    allow_auto_create: bool = True
    cluster_operations: bool = False
    topic_operations: bool = False


class Node(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionState(NamedTuple):
    partition: int
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int] = ()
    error: int = 0


class TopicState(NamedTuple):
    name: str | None
    topic_id: UUID | None
    partitions: Sequence[PartitionState] = ()
    error: int = 0
    is_internal: bool = False
    operations: int = NOT_ASKED


class ClusterState(NamedTuple):
    """All of an answer but its topics."""

    nodes: Sequence[Node]
    cluster_id: str | None
    controller_id: int
    operations: int = NOT_ASKED
    error: int = 0
    throttle_ms: int = 0


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> MetadataRequest:
    reader = Reader(buffer, at, end, version >= FLEXIBLE, MAX_ASKED)
    rounds = reader.nullable_array()
    topics: list[AskedTopic] | None = None
    if rounds is None:
        if version == 0:
            raise MalformedRequest("a null where an array has to be")
    else:
        topics = [_read_asked(reader, version) for _ in rounds]
        if version == 0 and not topics:  # version 0 has no null: nothing named is everything
            topics = None
    allow_auto_create = reader.boolean() if version >= 4 else True
    cluster_operations = reader.boolean() if version in _CLUSTER_OPERATIONS else False
    topic_operations = reader.boolean() if version >= 8 else False
    reader.skip_tags()
    # What follows is left unread, as Kafka leaves it: librdkafka writes the null of flexible versions as 4 bytes,
    # not 1, and the rest of its request ends up behind the end of ours.
    return MetadataRequest(topics, allow_auto_create, cluster_operations, topic_operations)


def _read_asked(reader: Reader, version: int) -> AskedTopic:
    topic_id = reader.uuid() if version >= _IDS else NIL_UUID
    name = reader.nullable_string() if version >= _IDS else reader.string()
    reader.skip_tags()
    if version < _BY_ID and name is None:
        raise MalformedRequest(f"Metadata version {version} asks for topics by name")
    return AskedTopic(name, topic_id if topic_id != NIL_UUID and version >= _BY_ID else None)


def encode_topic(version: int, topic: TopicState) -> bytes:
    """One topic of an answer."""
    flexible = version >= FLEXIBLE
    out = bytearray(_INT16.pack(topic.error))
    out += string(topic.name if version >= _BY_ID else topic.name or "", flexible)
    if version >= _IDS:
        out += (topic.topic_id or NIL_UUID).bytes
    if version >= 1:
        out += _INT8.pack(topic.is_internal)
    out += array(len(topic.partitions), flexible)
    for partition in topic.partitions:
        _put_partition(out, version, partition)
    if version >= 8:
        out += _INT32.pack(topic.operations)
    if flexible:
        out += b"\0"
    return bytes(out)


def _put_partition(out: bytearray, version: int, state: PartitionState) -> None:
    flexible = version >= FLEXIBLE
    if version >= 7:
        out += _PARTITION_7.pack(state.error, state.partition, state.leader, state.leader_epoch)
    else:
        out += _PARTITION_0.pack(state.error, state.partition, state.leader)
    _put_ids(out, state.replicas, flexible)
    _put_ids(out, state.isr, flexible)
    if version >= 5:
        _put_ids(out, state.offline, flexible)
    if flexible:
        out += b"\0"


def _put_ids(out: bytearray, ids: Sequence[int], flexible: bool) -> None:
    out += array(len(ids), flexible)
    for node_id in ids:
        out += _INT32.pack(node_id)


def encode_response(version: int, correlation_id: int, cluster: ClusterState, topics: Sequence[bytes]) -> bytes:
    """A whole answer, of topics that `encode_topic` made for the same version."""
    flexible = version >= FLEXIBLE
    head = bytearray()
    if version >= 3:
        head += _INT32.pack(cluster.throttle_ms)
    head += array(len(cluster.nodes), flexible)
    for node in cluster.nodes:
        head += _INT32.pack(node.node_id) + string(node.host, flexible) + _INT32.pack(node.port)
        if version >= 1:
            head += string(node.rack, flexible)
        if flexible:
            head += b"\0"
    if version >= 2:
        head += string(cluster.cluster_id, flexible)
    if version >= 1:
        head += _INT32.pack(cluster.controller_id)
    head += array(len(topics), flexible)
    return header.answer(header.METADATA, version, correlation_id, b"".join((head, *topics, _tail(version, cluster))))


def _tail(version: int, cluster: ClusterState) -> bytes:
    tail = b""
    if version in _CLUSTER_OPERATIONS:
        tail += _INT32.pack(cluster.operations)
    if version >= 13:
        tail += _INT16.pack(cluster.error)
    return tail + b"\0" if version >= FLEXIBLE else tail


def encode_request(version: int, correlation_id: int, client_id: str | None, request: MetadataRequest) -> bytes:
    flexible = version >= FLEXIBLE
    topics: Iterable[AskedTopic] | None = request.topics
    if version == 0:
        topics = request.topics or ()
    out = bytearray(array(None if topics is None else len(tuple(topics)), flexible))
    for name, topic_id in topics or ():
        if version >= _IDS:
            out += (topic_id or NIL_UUID).bytes
        out += string(name, flexible)
        if flexible:
            out += b"\0"
    if version >= 4:
        out += _INT8.pack(request.allow_auto_create)
    if version in _CLUSTER_OPERATIONS:
        out += _INT8.pack(request.cluster_operations)
    if version >= 8:
        out += _INT8.pack(request.topic_operations)
    if flexible:
        out += b"\0"
    return header.question(header.METADATA, version, correlation_id, client_id, out)


def decode_response(buffer: Buffer, at: int, end: int, version: int) -> tuple[ClusterState, list[TopicState]]:
    reader = Reader(buffer, at, end, version >= FLEXIBLE)
    throttle_ms = reader.int32() if version >= 3 else 0
    nodes = []
    for _ in reader.array():
        node_id, host, port = reader.int32(), reader.string(), reader.int32()
        nodes.append(Node(node_id, host, port, reader.nullable_string() if version >= 1 else None))
        reader.skip_tags()
    cluster_id = reader.nullable_string() if version >= 2 else None
    controller_id = reader.int32() if version >= 1 else -1
    topics = [_read_topic(reader, version) for _ in reader.array()]
    operations = reader.int32() if version in _CLUSTER_OPERATIONS else NOT_ASKED
    error = reader.int16() if version >= 13 else 0
    reader.skip_tags()
    reader.finish()
    return ClusterState(nodes, cluster_id, controller_id, operations, error, throttle_ms), topics


def _read_topic(reader: Reader, version: int) -> TopicState:
    error = reader.int16()
    name = reader.nullable_string() if version >= _BY_ID else reader.string()
    topic_id = reader.uuid() if version >= _IDS else None
    is_internal = reader.boolean() if version >= 1 else False
    partitions = [_read_partition(reader, version) for _ in reader.array()]
    operations = reader.int32() if version >= 8 else NOT_ASKED
    reader.skip_tags()
    return TopicState(name, topic_id, partitions, error, is_internal, operations)


def _read_partition(reader: Reader, version: int) -> PartitionState:
    error, partition, leader = reader.int16(), reader.int32(), reader.int32()
    leader_epoch = reader.int32() if version >= 7 else -1
    replicas = [reader.int32() for _ in reader.array()]
    isr = [reader.int32() for _ in reader.array()]
    offline = [reader.int32() for _ in reader.array()] if version >= 5 else []
    reader.skip_tags()
    return PartitionState(partition, leader, leader_epoch, replicas, isr, offline, error)
