"""AlterPartitionReassignments, 0 to 1: partitions to other nodes. A lone node can be asked for what is so already, and
every other wish gets the error that Kafka has for it: nodes that are not there, a number of replicas that does not fit,
or nothing under way that could be called off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.broker.partition import Partition
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.finding import outcome, partition_of, refusal
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import ALTER_PARTITION_REASSIGNMENTS


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    request = messages.decode(ALTER_PARTITION_REASSIGNMENTS, context.version, buffer, at, end)
    schema = messages.schema("response", ALTER_PARTITION_REASSIGNMENTS, context.version)
    topics = tuple(
        schema.ReassignableTopicResponse(
            name=topic.name,
            partitions=tuple(
                schema.ReassignablePartitionResponse(
                    partition_index=one.partition_index, **_judge(context, topic.name, one)
                )
                for one in topic.partitions
            ),
        )
        for topic in request.topics
    )
    response = messages.build(
        schema.AlterPartitionReassignmentsResponse,
        throttle_time=messages.NO_TIME,
        allow_replication_factor_change=context.version < 1 or request.allow_replication_factor_change,
        **refusal(Code.NONE),
        responses=topics,
    )
    return messages.encode(response, context.correlation_id)


def _judge(context: Context, name: str, one: Any) -> dict[str, Any]:
    try:
        partition = partition_of(context.broker, name, one.partition_index)
    except HeadraceError as error:
        return outcome(error)
    if one.replicas is None:
        return refusal(Code.NO_REASSIGNMENT_IN_PROGRESS, "the partition is not on its way anywhere")
    return _move(context, partition, one.replicas)


def _move(context: Context, partition: Partition, replicas: Sequence[int]) -> dict[str, Any]:
    if list(replicas) == partition.replicas:
        return refusal(Code.NONE)
    unknown = [node for node in replicas if node != context.broker.node_id]
    if unknown:
        return refusal(Code.INVALID_REPLICA_ASSIGNMENT, f"there is no node {unknown[0]}")
    return refusal(Code.INVALID_REPLICA_ASSIGNMENT, "an assignment names each of its nodes once, and at least one")


API = Api(ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", range(2), handle)
