"""Produce, 3 to 13. Kafka advertises from 0 although it takes from 3, because old librdkafka judges a broker by that; so do we.

Staging comes first, for all requests of a turn; then one write for each partition; then `Pending.flushed` answers what asked for no
more than that, and joins the group sync for acks=all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from headrace.broker.partition import Partition
from headrace.broker.topic import Topic
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, InvalidRecord, UnknownTopic, UnknownTopicId
from headrace.log.config import Staged
from headrace.ports import Buffer
from headrace.wire.kafka import produce as wire
from headrace.wire.kafka.errors import InvalidAcks, RequestTimedOut, UnsupportedCompression, code_for
from headrace.wire.kafka.header import PRODUCE, RequestHeader

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.doors.kafka.connection import Answer, Connection

API = Api(PRODUCE, "Produce", range(wire.OLDEST, wire.NEWEST + 1), advertised_min=0)

ALL = -1
ATTRIBUTES_AT = 22  # the low byte of a batch's attributes
ZSTD, ZSTD_FROM = 4, 7  # a client before version 7 could not know that its consumers understand zstd


class Part:
    """One partition's share of a request, and what became of it."""

    __slots__ = ("error", "index", "partition", "staged", "start", "stop")

    def __init__(self, index: int, start: int, stop: int, partition: Partition | None) -> None:
        self.index, self.start, self.stop, self.partition = index, start, stop, partition
        self.staged: Staged | None = None
        self.error: HeadraceError | None = None


class Pending:
    """A request whose batches are staged, until its answer."""

    __slots__ = ("acks", "answer", "connection", "deadline", "header", "timeout_ms", "topics", "waiting")

    def __init__(self, connection: Connection, header: RequestHeader, request: wire.ProduceRequest) -> None:
        self.connection, self.header, self.acks = connection, header, request.acks
        self.timeout_ms = request.timeout_ms
        self.answer: Answer | None = connection.place() if request.acks != 0 else None
        self.topics: list[tuple[wire.TopicData, list[Part]]] = []
        self.waiting = 0
        self.deadline = 0.0

    def flushed(self, failed: dict[Partition, HeadraceError] | None) -> None:
        """The turn's writes are done, but for those of `failed`."""
        if failed:
            for part in self._parts():
                if part.error is None and part.partition in failed:
                    part.error = failed[part.partition]
        if self.acks != ALL:
            self._finish()
            return
        self.waiting = 1
        for part in self._parts():
            if part.error is None:
                self._wait_for_sync(part)
        self._one_less()
        if self.waiting:
            self.deadline = self.connection.door.loop.time() + self.timeout_ms / 1000
            self.connection.waiting[self] = None

    def expire(self) -> None:
        """The client's own timeout: it is told so, though the batch may yet be synced."""
        for part in self._parts():
            if part.error is None and part.partition is not None and part.staged is not None:
                log = part.partition.log
                if log is None or log.synced_offset <= part.staged.last_offset:
                    part.error = RequestTimedOut(f"not synced within {self.timeout_ms} ms")
        self.waiting = 0
        self._finish()

    def _wait_for_sync(self, part: Part) -> None:
        assert part.partition is not None and part.partition.log is not None and part.staged is not None
        self.waiting += 1

        def synced(error: HeadraceError | None) -> None:
            if error is not None:
                part.error = error
            self._one_less()

        part.partition.log.when_synced(part.staged.last_offset + 1, synced)

    def _one_less(self) -> None:
        if self.waiting:
            self.waiting -= 1
            if not self.waiting:
                self._finish()

    def _finish(self) -> None:
        self.connection.waiting.pop(self, None)
        if self.answer is not None:
            self.answer.buffers = (self._encoded(),)
            self.connection.drain_soon()
        elif refused := next((part.error for part in self._parts() if part.error is not None), None):
            # Nobody waits for an answer; closing is the one way to say it, and Kafka's.
            self.connection.close(f"a batch sent with acks=0 was refused: {refused}")

    def _encoded(self) -> bytes:
        header = self.header
        if len(self.topics) == 1:
            data, parts = self.topics[0]
            if len(parts) == 1 and parts[0].error is None:
                part = parts[0]
                assert part.staged is not None
                name = data.topic_id.bytes if data.topic_id is not None else (data.name or "").encode()
                return wire.encode_single(
                    header.version,
                    header.correlation_id,
                    name,
                    part.index,
                    part.staged.base_offset,
                    part.staged.append_time_ms,
                    _start_offset(part),
                )
        results = [
            wire.TopicResult(data.name, data.topic_id, [_result(part) for part in parts])
            for data, parts in self.topics
        ]
        return wire.encode_response(header.version, header.correlation_id, results)

    def _parts(self) -> list[Part]:
        return [part for _, parts in self.topics for part in parts]


def stage(
    connection: Connection, buffer: memoryview, end: int, header: RequestHeader, own: bytearray | None
) -> Pending | None:
    """Everything up to the write. None: a log has to be opened first, which `finish` then does."""
    request = wire.decode_request(buffer, header.end, end, header.version)
    pending = Pending(connection, header, request)
    closed: list[Partition] = []
    for data in request.topics:
        topic = _topic(connection.broker, data.name, data.topic_id)
        parts = []
        for index, start, stop in data.partitions:
            partition = (
                topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None
            )
            if partition is not None and partition.log is None and partition.error is None:
                closed.append(partition)
            parts.append(Part(index, start, stop, partition))
        pending.topics.append((data, parts))
    if closed:
        kept = bytearray(buffer[:end]) if own is None else own
        connection.block()
        connection.door.spawn(_open_first(connection, pending, kept, closed), connection)
        return None
    _append(pending, buffer, own)
    return pending


async def _open_first(
    connection: Connection, pending: Pending, own: bytearray, closed: list[Partition]
) -> None:
    try:
        for partition in closed:
            try:
                await partition.opened()
            except HeadraceError as error:
                for part in pending._parts():
                    if part.partition is partition:
                        part.error = error
        _append(pending, memoryview(own), own)
        connection.finish_turn(pending)
    finally:
        connection.unblock()


def _append(pending: Pending, buffer: memoryview, own: bytearray | None) -> None:
    now_ms = pending.connection.broker.clock.now_ms()
    version, acks = pending.header.version, pending.acks
    for data, parts in pending.topics:
        for part in parts:
            try:
                if part.error is None:
                    _append_one(part, data, buffer, own, version, acks, now_ms)
            except HeadraceError as error:
                part.error = error


def _append_one(
    part: Part,
    data: wire.TopicData,
    buffer: memoryview,
    own: bytearray | None,
    version: int,
    acks: int,
    now_ms: int,
) -> None:
    partition, start, stop = part.partition, part.start, part.stop
    if partition is None:
        raise _unknown(data, part.index)
    if partition.error is not None:
        raise partition.error
    if acks == ALL:
        partition.check_in_sync()
    elif not 0 <= acks <= 1:
        raise InvalidAcks(f"acks is 0, 1 or -1 (all), not {acks}")
    if start < 0:
        raise InvalidRecord("no records")
    if version < ZSTD_FROM and stop - start > ATTRIBUTES_AT and buffer[start + ATTRIBUTES_AT] & 7 == ZSTD:
        raise UnsupportedCompression("zstd needs Produce version 7")
    batch: Buffer
    if own is not None and 2 * (stop - start) >= len(own):
        batch = buffer[start:stop]  # the log may keep the whole frame: it is hardly larger
    else:
        batch = bytearray(buffer[start:stop])
    part.staged = partition.append(batch, now_ms)


def _topic(broker: Broker, name: str | None, topic_id: UUID | None) -> Topic | None:
    if topic_id is not None:
        return broker.topic_by_id(topic_id)
    assert name is not None
    return broker.topic(name) or broker.topic(from_kafka(name))


def _unknown(data: wire.TopicData, index: int) -> HeadraceError:
    if data.topic_id is not None:
        return UnknownTopicId(f"no topic {data.topic_id}, or no partition {index} of it")
    return UnknownTopic(f"no topic {data.name!r}, or no partition {index} of it")


def _start_offset(part: Part) -> int:
    log = part.partition.log if part.partition is not None else None
    return log.start_offset if log is not None else -1


def _result(part: Part) -> wire.PartitionResult:
    if part.error is not None:
        code, message = code_for(part.error)
        return wire.PartitionResult(part.index, code, message=message)
    assert part.staged is not None
    return wire.PartitionResult(
        part.index, 0, part.staged.base_offset, part.staged.append_time_ms, _start_offset(part)
    )
