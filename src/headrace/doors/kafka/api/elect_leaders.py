"""ElectLeaders, 0 to 2. Where every partition has one replica, its leader is the preferred one and no other could lead:
whoever is named has its election behind it. Asked for all partitions, those that need none are not named.
"""

from __future__ import annotations

from typing import Any

from headrace.doors.kafka.context import Context
from headrace.doors.kafka.finding import outcome, partition_of, refusal
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import ELECT_LEADERS

_TYPES = (0, 1)  # preferred, unclean


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    request = messages.decode(ELECT_LEADERS, context.version, buffer, at, end)
    schema = messages.schema("response", ELECT_LEADERS, context.version)
    known = context.version < 1 or request.election_type in _TYPES
    topics = [
        schema.ReplicaElectionResult(
            topic=topic.topic,
            partition_result=tuple(
                schema.PartitionResult(partition_id=index, **_elect(context, topic.topic, index))
                for index in dict.fromkeys(topic.partitions)
            ),
        )
        for topic in (request.topic_partitions or ())
    ]
    response = messages.build(
        schema.ElectLeadersResponse,
        throttle_time=messages.NO_TIME,
        error_code=messages.error_code(Code.NONE if known else Code.INVALID_REQUEST),
        replica_election_results=tuple(topics) if known else (),
    )
    return messages.encode(response, context.correlation_id)


def _elect(context: Context, name: str, index: int) -> dict[str, Any]:
    try:
        partition = partition_of(context.broker, name, index)
    except HeadraceError as error:
        return outcome(error)
    return refusal(Code.ELECTION_NOT_NEEDED, f"node {partition.leader} leads, and is the one to lead")


API = Api(ELECT_LEADERS, "ElectLeaders", range(3), handle)
