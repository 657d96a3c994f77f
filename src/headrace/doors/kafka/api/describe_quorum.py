"""DescribeQuorum, 0 to 2: who decides on the metadata, and how far each has come. The quorum appears under the name
that Kafka has for its metadata log; no other topic has one.
"""

from __future__ import annotations

from typing import Any

from headrace.doors.kafka.context import Context
from headrace.doors.kafka.finding import refusal
from headrace.doors.kafka.registry import Api
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import DESCRIBE_QUORUM

METADATA_TOPIC = "__cluster_metadata"
_UNKNOWN = -1


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    request = messages.decode(DESCRIBE_QUORUM, context.version, buffer, at, end)
    schema = messages.schema("response", DESCRIBE_QUORUM, context.version)
    topics = tuple(
        schema.TopicData(
            topic_name=topic.topic_name,
            partitions=tuple(
                _state(schema, context, topic.topic_name, one.partition_index) for one in topic.partitions
            ),
        )
        for topic in request.topics
    )
    response = messages.build(
        schema.DescribeQuorumResponse, **refusal(Code.NONE), topics=topics, nodes=_nodes(schema, context)
    )
    return messages.encode(response, context.correlation_id)


def _state(schema: Any, context: Context, name: str, index: int) -> Any:
    if (name, index) != (METADATA_TOPIC, 0):
        return messages.build(
            schema.PartitionData,
            partition_index=index,
            **refusal(Code.UNKNOWN_TOPIC_OR_PARTITION, f"only {METADATA_TOPIC}, partition 0, has a quorum"),
            leader_id=_UNKNOWN,
            leader_epoch=_UNKNOWN,
            high_watermark=_UNKNOWN,
            current_voters=(),
            observers=(),
        )
    broker = context.broker
    now_ms = broker.clock.now_ms()
    voter = messages.build(
        schema.ReplicaState,
        replica_id=broker.node_id,
        replica_directory_id=None,
        log_end_offset=broker.quorum.index,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return messages.build(
        schema.PartitionData,
        partition_index=index,
        **refusal(Code.NONE),
        leader_id=broker.controller_id,
        leader_epoch=broker.quorum.term,
        high_watermark=broker.quorum.index,
        current_voters=(voter,),
        observers=(),
    )


def _nodes(schema: Any, context: Context) -> tuple[Any, ...]:
    if not hasattr(schema, "Node"):
        return ()
    host, port = context.listener
    listener = schema.Listener(name="PLAINTEXT", host=host, port=port)
    return (schema.Node(node_id=context.broker.node_id, listeners=(listener,)),)


API = Api(DESCRIBE_QUORUM, "DescribeQuorum", range(3), handle)
