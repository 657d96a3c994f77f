"""DescribeCluster, 0 to 2: the nodes, by the addresses at which clients reach them, and who is the controller. Clients
of a quorum's own listeners (endpoint type 2) are told that this is not one.
"""

from __future__ import annotations

from typing import Any

from headrace.doors.kafka.context import Context
from headrace.doors.kafka.finding import refusal
from headrace.doors.kafka.operations import CLUSTER_OPERATIONS, NOT_ASKED
from headrace.doors.kafka.registry import Api
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import DESCRIBE_CLUSTER

_BROKERS, _CONTROLLERS = 1, 2


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    request = messages.decode(DESCRIBE_CLUSTER, context.version, buffer, at, end)
    schema = messages.schema("response", DESCRIBE_CLUSTER, context.version)
    endpoint = request.endpoint_type if context.version >= 1 else _BROKERS
    broker = context.broker
    host, port = context.listener
    nodes: tuple[Any, ...] = (
        messages.build(
            schema.DescribeClusterBroker, broker_id=broker.node_id, host=host, port=port, rack=None, is_fenced=False
        ),
    )
    ended = refusal(Code.NONE)
    if endpoint == _CONTROLLERS:
        ended = refusal(Code.MISMATCHED_ENDPOINT_TYPE, "this listener is for clients, not for the quorum")
    elif endpoint != _BROKERS:
        ended = refusal(Code.UNSUPPORTED_ENDPOINT_TYPE, f"there is no endpoint type {endpoint}")
    response = messages.build(
        schema.DescribeClusterResponse,
        throttle_time=messages.NO_TIME,
        **ended,
        endpoint_type=endpoint,
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id,
        brokers=nodes if endpoint == _BROKERS else (),
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )
    return messages.encode(response, context.correlation_id)


API = Api(DESCRIBE_CLUSTER, "DescribeCluster", range(3), handle)
