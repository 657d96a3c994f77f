"""Metadata, 0 to 13: which topics there are, and where. Topics that are asked for and missing are created,
when the client and the node both allow it; the answer waits for that and names the new topic at once.

Encoded topics are kept until the cluster's metadata changes: a client that asks for a thousand partitions
again and again costs one join.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from uuid import UUID
from weakref import WeakKeyDictionary

from headrace.broker.broker import Broker
from headrace.broker.topic import Topic
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.names import checked, from_kafka, to_kafka
from headrace.doors.kafka.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, InvalidTopicName, UnknownTopic, UnknownTopicId
from headrace.ports import Buffer
from headrace.wire.kafka import metadata as wire
from headrace.wire.kafka.header import METADATA


class EncodedTopics:
    """A broker's topics as bytes, as of one version of its metadata: at most one entry for each topic,
    version of the API and kind of wish.
    """

    def __init__(self) -> None:
        self._metadata_version = -1
        self._bytes: dict[tuple[UUID, int, bool], bytes] = {}

    def get(self, broker: Broker, topic: Topic, version: int, operations: bool) -> bytes:
        if broker.metadata_version != self._metadata_version:
            self._metadata_version = broker.metadata_version
            self._bytes.clear()
        key = topic.id, version, operations
        encoded = self._bytes.get(key)
        if encoded is None:
            encoded = self._bytes[key] = wire.encode_topic(version, _state(broker, topic, operations))
        return encoded


_encoded: WeakKeyDictionary[Broker, EncodedTopics] = WeakKeyDictionary()


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes | Awaitable[bytes]:
    request = wire.decode_request(buffer, at, end, context.version)
    broker = context.broker
    if request.topics is not None and request.allow_auto_create and broker.configuration.auto_create_topics:
        missing = list(dict.fromkeys(name for asked in request.topics if (name := _missing(broker, asked)) is not None))
        if missing:
            return _create_first(context, request, missing)
    return _answer(context, request)


async def _create_first(context: Context, request: wire.MetadataRequest, missing: Sequence[str]) -> bytes:
    await context.broker.auto_create(missing)
    return _answer(context, request)


def _missing(broker: Broker, asked: wire.AskedTopic) -> str | None:
    """Our name of a topic that is not there and could be."""
    if asked.topic_id is not None or asked.name is None:
        return None
    try:
        name = checked(asked.name)
    except InvalidTopicName:
        return None
    return name if broker.topic(name) is None else None


def _answer(context: Context, request: wire.MetadataRequest) -> bytes:
    broker, version = context.broker, context.version
    encoded = _encoded.setdefault(broker, EncodedTopics())
    operations = request.topic_operations
    if request.topics is None:
        topics = [encoded.get(broker, topic, version, operations) for topic in broker.topics()]
    else:
        topics = []
        for asked in dict.fromkeys(request.topics):
            try:
                topic = _find(broker, asked)
                if asked.name == topic.name != to_kafka(topic.name):  # who can spell it is answered in its own words
                    topics.append(wire.encode_topic(version, _state(broker, topic, operations, topic.name)))
                else:
                    topics.append(encoded.get(broker, topic, version, operations))
            except HeadraceError as error:
                topics.append(wire.encode_topic(version, _unknown(asked, error)))
    cluster = wire.ClusterState(
        [wire.Node(broker.node_id, *context.listener)],
        broker.cluster_id,
        broker.controller_id,
        CLUSTER_OPERATIONS if request.cluster_operations else wire.NOT_ASKED,
    )
    return wire.encode_response(version, context.correlation_id, cluster, topics)


def _unknown(asked: wire.AskedTopic, error: HeadraceError) -> wire.TopicState:
    name = None if asked.topic_id is not None else asked.name
    return wire.TopicState(name, asked.topic_id, error=code_for(error)[0])


def _find(broker: Broker, asked: wire.AskedTopic) -> Topic:
    if asked.topic_id is not None or asked.name is None:
        topic = broker.topic_by_id(asked.topic_id) if asked.topic_id is not None else None
        if topic is None:
            raise UnknownTopicId(f"no topic {asked.topic_id}")
        return topic
    topic = broker.topic(from_kafka(asked.name))
    if topic is None:
        raise UnknownTopic(f"no topic {checked(asked.name)!r}")
    broker.memory_topics.used(topic)
    return topic


def _state(broker: Broker, topic: Topic, operations: bool, name: str | None = None) -> wire.TopicState:
    return wire.TopicState(
        name or to_kafka(topic.name),
        topic.id,
        [
            wire.PartitionState(
                partition.index,
                partition.leader,
                partition.leader_epoch,
                partition.replicas,
                partition.isr,
                [replica for replica in partition.replicas if replica != broker.node_id],
            )
            for partition in topic.partitions
        ],
        is_internal=topic.internal,
        operations=TOPIC_OPERATIONS if operations else wire.NOT_ASKED,
    )


API = Api(METADATA, "Metadata", range(wire.OLDEST, wire.NEWEST + 1), handle)
