"""ListPartitionReassignments, 0: partitions on their way to other nodes. None ever is on a lone node."""

from __future__ import annotations

from headrace.doors.kafka.context import Context
from headrace.doors.kafka.finding import refusal
from headrace.doors.kafka.registry import Api
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import LIST_PARTITION_REASSIGNMENTS


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    messages.decode(LIST_PARTITION_REASSIGNMENTS, context.version, buffer, at, end)
    schema = messages.schema("response", LIST_PARTITION_REASSIGNMENTS, context.version)
    response = schema.ListPartitionReassignmentsResponse(
        throttle_time=messages.NO_TIME, **refusal(Code.NONE), topics=()
    )
    return messages.encode(response, context.correlation_id)


API = Api(LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", range(1), handle)
