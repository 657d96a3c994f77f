"""Produce, 3 to 13. Kafka advertises from 0 although it takes from 3, because old librdkafka judges a broker by that;
so do we.

Staging comes first, for all requests of a turn; then one write for each partition; then `Pending.flushed` answers
what asked for no more than that, and joins the group sync for acks=all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.broker.partition import Partition
from headrace.broker.topic import Topic
from headrace.cluster.controller import MAX_TOPIC_NAME_BYTES
from headrace.doors.kafka import transacting
from headrace.doors.kafka.answers import Answer
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, InvalidAcks, InvalidRecord, StorageFailed, UnknownTopic, UnknownTopicId
from headrace.log.config import Staged
from headrace.ports import Buffer
from headrace.records.header import TRANSACTIONAL
from headrace.wire.kafka import produce as wire
from headrace.wire.kafka.errors import RequestTimedOut, UnsupportedCompression, code_for
from headrace.wire.kafka.header import PRODUCE

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.doors.kafka.connection import Connection

API = Api(PRODUCE, "Produce", range(wire.OLDEST, wire.NEWEST + 1), advertised_min=0)

ALL = -1
NOBODY_WAITS = 0
ATTRIBUTES_AT = 22  # the low byte of a batch's attributes
ZSTD, ZSTD_FROM = 4, 7  # a client before version 7 could not know that its consumers understand zstd


class Part:
    """One partition's share of a request, and what became of it."""

    __slots__ = ("error", "index", "partition", "staged", "start", "stop")

    def __init__(self, index: int, start: int, stop: int) -> None:
        self.index, self.start, self.stop = index, start, stop
        self.partition: Partition | None = None
        self.staged: Staged | None = None
        self.error: HeadraceError | None = None

    @property
    def is_written(self) -> bool:
        log = self.partition.log if self.partition is not None else None
        return log is not None and self.staged is not None and self.staged.last_offset < log.written_offset


class Pending(Answer):
    """A request whose batches are staged, and the place of its answer."""

    __slots__ = ("began", "connection", "correlation_id", "deadline", "parts", "request", "version", "waiting")

    began: float  # when it came; of those that wait for a sync

    def __init__(self, connection: Connection, version: int, correlation_id: int, request: wire.ProduceRequest) -> None:
        self.buffers: Sequence[Buffer] | None = None
        self.ready_bytes = 0
        self.connection, self.version, self.correlation_id = connection, version, correlation_id
        self.request = request
        self.parts: list[Part] = []  # in the order of the request
        self.waiting = 0

    def flushed(self, failed: dict[Partition, HeadraceError] | None) -> None:
        """The turn's writes are done, but for those of `failed`."""
        if failed:
            for part in self.parts:
                if part.error is None and part.partition in failed:
                    part.error = failed[part.partition]
        for part in self.parts:
            if part.error is None and not part.is_written:  # never acknowledged, whatever the fault
                part.error = StorageFailed("the batch was not written; the log of this node says why")
        if self.request.acks == ALL:
            self._wait_for_syncs()
        else:
            self._finish()

    def expire(self) -> None:
        """The client's own timeout: it is told so, though the batch may yet be synced."""
        for part in self.parts:
            if part.error is None and part.partition is not None and part.staged is not None:
                log = part.partition.log
                if log is None or log.synced_offset <= part.staged.last_offset:
                    part.error = RequestTimedOut(f"not synced within {self.request.timeout_ms} ms")
        self.waiting = 0
        self._finish_late()

    def _wait_for_syncs(self) -> None:
        self.waiting = 1
        for part in self.parts:
            if part.error is None:
                assert part.partition is not None and part.partition.log is not None and part.staged is not None
                self.waiting += 1
                part.partition.log.when_synced(part.staged.last_offset + 1, partial(self._synced, part))
        if self.waiting > 1:
            self.began = self.connection.turn_began()
            self.deadline = self.connection.door.loop.time() + self.request.timeout_ms / 1000
            self.connection.waiting[self] = None
        self._one_less()

    def _synced(self, part: Part, error: HeadraceError | None) -> None:
        if error is not None:
            part.error = error
        self._one_less()

    def _one_less(self) -> None:
        if self.waiting:
            self.waiting -= 1
            if not self.waiting:
                self._finish_late()

    def _finish_late(self) -> None:
        if self in self.connection.waiting:
            del self.connection.waiting[self]
            self.connection.done(PRODUCE, self.began)
        self._finish()

    def _finish(self) -> None:
        if self.request.acks != NOBODY_WAITS:
            self.buffers = (self._encoded(),)
            self.connection.drain_soon()
        elif refused := next((part.error for part in self.parts if part.error is not None), None):
            # Closing is the one way to say it, and Kafka's.
            self.connection.door.metrics.failed(PRODUCE, code_for(refused)[0])
            self.connection.close(f"a batch sent with acks=0 was refused: {refused}", "refused")

    def _encoded(self) -> bytes:
        parts, topics = self.parts, self.request.topics
        if len(parts) == 1 and parts[0].error is None:
            (part,), data = parts, topics[0]
            assert part.staged is not None and part.partition is not None
            base_offset, _, _, append_time_ms = part.staged
            log = part.partition.log
            return wire.encode_single(
                self.version,
                self.correlation_id,
                (data.name or "").encode() if data.topic_id is None else data.topic_id.bytes,
                part.index,
                base_offset,
                append_time_ms,
                log.start_offset if log is not None else -1,
            )
        for part in parts:
            if part.error is not None:
                self.connection.door.metrics.failed(PRODUCE, code_for(part.error)[0])
        of_topic = iter(parts)
        results = [
            wire.TopicResult(data.name, data.topic_id, [_result(next(of_topic)) for _ in data.partitions])
            for data in topics
        ]
        return wire.encode_response(self.version, self.correlation_id, results)


def stage(
    connection: Connection,
    buffer: memoryview,
    at: int,
    end: int,
    version: int,
    correlation_id: int,
    own: bytearray | None,
) -> Pending | None:
    """Everything up to the write. None: a log has to be opened first, and the request then finishes its turn by
    itself."""
    request = wire.decode_request(buffer, at, end, version)
    pending = Pending(connection, version, correlation_id, request)
    parts = pending.parts
    closed: dict[Partition, None] = {}
    unread: dict[Topic, None] = {}
    for name, topic_id, partitions in request.topics:
        topic = _topic(connection.broker, name, topic_id)
        if topic is not None and topic.window_ms and not connection.broker.deduplication.of(topic).is_ready:
            unread[topic] = None
        count = len(topic.partitions) if topic is not None else 0
        unknown: HeadraceError | None = None
        for index, start, stop in partitions:
            part = Part(index, start, stop)
            parts.append(part)
            if topic is None or not 0 <= index < count:
                part.error = unknown = unknown or unknown_topic(name, topic_id, topic)
                continue
            partition = part.partition = topic.partitions[index]
            if partition.log is None:
                part.error = partition.error
                if part.error is None:
                    closed[partition] = None
    if request.acks != NOBODY_WAITS:
        connection.place(pending)
    if closed or unread or (request.transactional_id is not None and transacting.has_to_wait(pending, buffer)):
        connection.block()
        kept = bytearray(buffer[:end]) if own is None else own
        connection.door.spawn(_open_first(pending, kept, list(closed), list(unread)), connection)
        return None
    _append(pending, buffer, own)
    return pending


async def _open_first(pending: Pending, own: bytearray, closed: list[Partition], unread: list[Topic]) -> None:
    connection = pending.connection
    began, memory = connection.now(), connection.door.memory
    memory.used_bytes += len(own)  # held on to, while others may wait for room
    try:
        for partition in closed:
            try:
                await partition.opened()
            except HeadraceError as error:
                for part in pending.parts:
                    if part.partition is partition:
                        part.error = error
        for topic in unread:
            await connection.broker.deduplication.ready(topic)
        if pending.request.transactional_id is not None:
            await transacting.join(pending, memoryview(own))
        _append(pending, memoryview(own), own)
        connection.finish_turn(pending, began)
    finally:
        memory.give_back(connection, len(own))
        connection.unblock()


def _append(pending: Pending, buffer: memoryview, own: bytearray | None) -> None:
    acks, version = pending.request.acks, pending.version
    now_ms = pending.connection.broker.clock.now_ms()
    for part in pending.parts:
        if part.error is not None:
            continue
        partition, start, stop = part.partition, part.start, part.stop
        assert partition is not None
        try:
            if acks != 1:
                _check_acks(partition, acks)
            if start < 0:
                raise InvalidRecord("no records")
            if version < ZSTD_FROM and stop - start > ATTRIBUTES_AT and buffer[start + ATTRIBUTES_AT] & 7 == ZSTD:
                raise UnsupportedCompression("zstd needs Produce version 7")
            is_first = False
            if stop - start > ATTRIBUTES_AT and buffer[start + ATTRIBUTES_AT] & TRANSACTIONAL:
                transacting.check(pending, part, buffer)
                is_first = version >= transacting.ADDS_FROM
            if own is not None and 2 * (stop - start) >= len(own):
                # The log may keep the whole frame: it is hardly larger than the batch.
                part.staged = partition.append(buffer[start:stop], now_ms, is_first=is_first)
            else:
                part.staged = partition.append(bytearray(buffer[start:stop]), now_ms, is_first=is_first)
        except HeadraceError as error:
            part.error = error


def _check_acks(partition: Partition, acks: int) -> None:
    if acks == ALL:
        partition.check_in_sync()
    elif acks != NOBODY_WAITS:
        raise InvalidAcks(f"acks is 0, 1 or -1 (all), not {acks}")


def _topic(broker: Broker, name: str | None, topic_id: UUID | None) -> Topic | None:
    if topic_id is not None:
        return broker.topic_by_id(topic_id)
    assert name is not None
    return broker.topic(name) or broker.topic(from_kafka(name))


def unknown_topic(name: str | None, topic_id: UUID | None, topic: Topic | None) -> HeadraceError:
    """Or no such partition of it. One for all that are asked for: a request may name thousands."""
    if topic_id is None:
        return UnknownTopic(f"no topic {(name or '')[:MAX_TOPIC_NAME_BYTES]!r}, or no such partition of it")
    return UnknownTopicId(f"no topic {topic_id}") if topic is None else UnknownTopic(f"no such partition of {topic_id}")


def _result(part: Part) -> wire.PartitionResult:
    if part.error is not None:
        code, message = code_for(part.error)
        return wire.PartitionResult(part.index, code, message=message)
    assert part.staged is not None and part.partition is not None
    log = part.partition.log
    start_offset = log.start_offset if log is not None else -1
    return wire.PartitionResult(part.index, 0, part.staged.base_offset, part.staged.append_time_ms, start_offset)
