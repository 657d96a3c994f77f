"""DescribeLogDirs, 1 to 5: what partitions take on the disk, and how much of it is left. A node has one directory;
memory topics are in none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any, NamedTuple

from headrace.broker.broker import Broker
from headrace.broker.partition import Partition
from headrace.broker.sizes import measure
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.names import from_kafka, to_kafka
from headrace.doors.kafka.registry import Api
from headrace.ports import Buffer
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import DESCRIBE_LOG_DIRS

_UNKNOWN = -1


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Awaitable[bytes]:
    return _describe(messages.decode(DESCRIBE_LOG_DIRS, context.version, buffer, at, end), context)


async def _describe(request: Any, context: Context) -> bytes:
    """All off the loop but for the question which partitions: there may be ten thousand."""
    broker = context.broker
    wanted = _all(broker) if request.topics is None else _named(broker, request.topics)
    places = [(to_kafka(partition.topic.name), partition.index) for partition in wanted]
    sizes, path, space = measure(wanted, broker.store.services.files), broker.store.path, broker.disk_space

    def work() -> bytes:
        try:
            found = _Found(Code.NONE, list(zip(places, sizes(), strict=True)), space())
        except OSError:
            found = _Found(Code.KAFKA_STORAGE_ERROR, [], None)
        return messages.encode(_response(context.version, path, found), context.correlation_id)

    return await context.in_background(work)


class _Found(NamedTuple):
    code: Code
    partitions: list[tuple[tuple[str, int], int]]
    space: tuple[int, int] | None


def _response(version: int, path: str, found: _Found) -> Any:
    schema = messages.schema("response", DESCRIBE_LOG_DIRS, version)
    topics: dict[str, list[Any]] = {}
    for (name, index), size in found.partitions:
        topics.setdefault(name, []).append(
            schema.DescribeLogDirsPartition(
                partition_index=index, partition_size=size, offset_lag=0, is_future_key=False
            )
        )
    free, total = found.space or (_UNKNOWN, _UNKNOWN)
    result = messages.build(
        schema.DescribeLogDirsResult,
        error_code=messages.error_code(found.code),
        log_dir=path,
        topics=tuple(schema.DescribeLogDirsTopic(name=name, partitions=tuple(of)) for name, of in topics.items()),
        total_bytes=total,
        usable_bytes=free,
        is_cordoned=False,
    )
    return messages.build(
        schema.DescribeLogDirsResponse,
        throttle_time=messages.NO_TIME,
        error_code=messages.error_code(Code.NONE),
        results=(result,),
    )


def _all(broker: Broker) -> list[Partition]:
    return [partition for topic in broker.topics() if not topic.config.is_memory for partition in topic.partitions]


def _named(broker: Broker, topics: Iterable[Any]) -> list[Partition]:
    """Each once; what is not there is left out, as Kafka does."""
    found: dict[Partition, None] = {}
    for asked in topics:
        topic = broker.topic(from_kafka(asked.topic))
        if topic is not None and not topic.config.is_memory:
            found.update((topic.partitions[n], None) for n in asked.partitions if 0 <= n < len(topic.partitions))
    return list(found)


API = Api(DESCRIBE_LOG_DIRS, "DescribeLogDirs", range(1, 6), handle)
