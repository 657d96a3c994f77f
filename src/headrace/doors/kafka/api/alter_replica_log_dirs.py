"""AlterReplicaLogDirs, 1 to 2: partitions to another directory of the node. It has one: what is there already may be
asked to go there, anything else is a directory that is not found.
"""

from __future__ import annotations

from typing import Any

from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.finding import partition_of
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import ALTER_REPLICA_LOG_DIRS


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    request = messages.decode(ALTER_REPLICA_LOG_DIRS, context.version, buffer, at, end)
    schema = messages.schema("response", ALTER_REPLICA_LOG_DIRS, context.version)
    topics: dict[str, list[Any]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            results = topics.setdefault(topic.name, [])
            for index in topic.partitions:
                code = messages.error_code(_judge(context, directory.path, topic.name, index))
                results.append(schema.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    response = schema.AlterReplicaLogDirsResponse(
        throttle_time=messages.NO_TIME,
        results=tuple(
            schema.AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(results))
            for name, results in topics.items()
        ),
    )
    return messages.encode(response, context.correlation_id)


def _judge(context: Context, path: str, name: str, index: int) -> Code:
    if path != context.broker.store.path:
        return Code.LOG_DIR_NOT_FOUND
    try:
        partition_of(context.broker, name, index)
    except HeadraceError as error:
        return code_for(error)[0]
    return Code.NONE


API = Api(ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", range(1, 3), handle)
