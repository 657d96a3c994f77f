"""DescribeTopicPartitions, 0: topics and their partitions page by page, in the order of the topics' names. No topic
named is all of them. A cursor says where the next page begins; it is given back when the page is full.
"""

from __future__ import annotations

from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.partition import Partition
from headrace.broker.topic import Topic
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.names import to_kafka
from headrace.doors.kafka.operations import TOPIC_OPERATIONS
from headrace.doors.kafka.registry import Api
from headrace.doors.kafka.resources import topic_of
from headrace.errors import HeadraceError
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code, InvalidRequest
from headrace.wire.kafka.header import DESCRIBE_TOPIC_PARTITIONS

MAX_PARTITIONS = 500  # of one answer, which takes ten milliseconds; clients ask for the next page


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    request = messages.decode(DESCRIBE_TOPIC_PARTITIONS, context.version, buffer, at, end)
    schema = messages.schema("response", DESCRIBE_TOPIC_PARTITIONS, context.version)
    broker, cursor = context.broker, request.cursor
    names = sorted({topic.name for topic in request.topics})
    if cursor is not None and cursor.partition_index < 0:
        error = InvalidRequest(f"a cursor at partition {cursor.partition_index}")
        topics: list[Any] = [_failed(schema, name, error) for name in names]
        following = None
    else:
        names = names or sorted(to_kafka(topic.name) for topic in broker.topics())
        first = (cursor.topic_name, cursor.partition_index) if cursor is not None else ("", 0)
        room = max(1, min(MAX_PARTITIONS, request.response_partition_limit))
        topics, following = _page(schema, broker, names, first, room)
    response = schema.DescribeTopicPartitionsResponse(
        throttle_time=messages.NO_TIME, topics=tuple(topics), next_cursor=following
    )
    return messages.encode(response, context.correlation_id)


def _page(schema: Any, broker: Broker, names: list[str], first: tuple[str, int], room: int) -> tuple[list[Any], Any]:
    """The topics from `first` on, with so many partitions; and where the next page begins."""
    topics: list[Any] = []
    first_name, first_index = first
    for name in names:
        if name < first_name:
            continue
        begin = first_index if name == first_name else 0
        if not room:
            return topics, schema.Cursor(topic_name=name, partition_index=begin)
        try:
            topic = topic_of(broker, name)
        except HeadraceError as error:
            topics.append(_failed(schema, name, error))
            continue
        shown = topic.partitions[begin : begin + room]
        topics.append(_topic(schema, broker, name, topic, shown))
        room -= len(shown)
        if begin + len(shown) < len(topic.partitions):
            return topics, schema.Cursor(topic_name=name, partition_index=begin + len(shown))
    return topics, None


def _topic(schema: Any, broker: Broker, name: str, topic: Topic, shown: list[Partition]) -> Any:
    return schema.DescribeTopicPartitionsResponseTopic(
        error_code=messages.error_code(Code.NONE),
        name=name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=tuple(_partition(schema, broker, partition) for partition in shown),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(schema: Any, broker: Broker, partition: Partition) -> Any:
    return schema.DescribeTopicPartitionsResponsePartition(
        error_code=messages.error_code(Code.NONE),
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=tuple(partition.replicas),
        isr_nodes=tuple(partition.isr),
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=tuple(node for node in partition.replicas if node != broker.node_id),
    )


def _failed(schema: Any, name: str, error: HeadraceError) -> Any:
    return schema.DescribeTopicPartitionsResponseTopic(
        error_code=messages.error_code(code_for(error)[0]),
        name=name,
        topic_id=None,
        is_internal=False,
        partitions=(),
        topic_authorized_operations=0,
    )


API = Api(DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", range(1), handle)
