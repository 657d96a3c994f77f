"""The short way of a Produce request of one batch, which is what nearly every one is: a kernel has read and checked it.

A client that sends one record at a time finds our code cold, and then each function on the way costs as much as a
system call. So there are few of them here. Whatever is not plain (acks=0, transactions, a log that has to be opened, a
topic that does not take every batch) goes the general way, and so does the answer when anything went wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.partition import Partition
from headrace.doors.kafka.api.produce import ALL, ZSTD, ZSTD_FROM, Part, Pending
from headrace.errors import HeadraceError
from headrace.log.config import Staged
from headrace.ports import Buffer
from headrace.records.header import COMPRESSION_MASK, CONTROL, TRANSACTIONAL
from headrace.wire.kafka import kernel
from headrace.wire.kafka.primitives import uuid_of
from headrace.wire.kafka.produce import ProduceRequest, TopicData

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.doors.kafka.connection import Connection
    from headrace.wire.kafka.twin import Single

LEADER: Final = 1  # acks
SPECIAL: Final = TRANSACTIONAL | CONTROL


class Written(Pending):
    """Waits for the write alone."""

    __slots__ = ("_partition", "_single", "_staged")

    def __init__(self, connection: Connection, single: Single, partition: Partition, staged: Staged) -> None:
        self.connection, self._single, self._partition, self._staged = connection, single, partition, staged
        self.buffers = None
        self.ready_bytes = self.waiting = 0

    def flushed(self, failed: dict[Partition, HeadraceError] | None) -> None:
        log, staged = self._partition.log, self._staged
        if failed is None and log is not None and staged[1] < log.written_offset:
            # Which the end of the turn sends.
            self.buffers = (kernel.single_answer(self._single, staged[0], staged[3], log.start_offset),)
        else:
            widen(self, self._single, self._partition, staged)
            super().flushed(failed)


def written(connection: Connection, buffer: memoryview, single: Single) -> Buffer | None:
    """The answer to a request that is all of a turn, and asks for no more than the write. None: it is for the general
    way, and nothing was done."""
    broker = connection.broker
    partition = _plain_partition(broker, single)
    if partition is None:
        return None
    staged = failed = error = None
    try:
        batch = bytearray(buffer[single[6] : single[7]])
        staged = partition.take(batch, single[8], broker.clock.now_ms())
        failed = broker.flush()
    except HeadraceError as refusal:
        error = refusal
    log = partition.log
    if staged is not None and failed is None and log is not None and staged[1] < log.written_offset:
        return kernel.single_answer(single, staged[0], staged[3], log.start_offset)
    pending = Pending.__new__(Pending)
    pending.connection = connection
    widen(pending, single, partition, staged, error)
    pending.flushed(failed)
    assert pending.buffers is not None
    return pending.buffers[0]


def stage(connection: Connection, buffer: memoryview, single: Single, own: bytearray | None) -> Pending | None:
    """As `produce.stage`. None: it is for the general way, and nothing was done."""
    acks, start, stop = single[2], single[6], single[7]
    partition = _plain_partition(connection.broker, single) if acks in (LEADER, ALL) else None
    if partition is None:
        return None
    # The log may keep a whole frame of its own: it is hardly larger than the batch.
    keeps = own is not None and 2 * (stop - start) >= len(own)
    batch = buffer[start:stop] if keeps else bytearray(buffer[start:stop])
    staged = error = None
    try:
        if acks == ALL:
            partition.check_in_sync()
        staged = partition.take(batch, single[8], connection.broker.clock.now_ms())
    except HeadraceError as refusal:
        error = refusal
    if staged is not None and acks == LEADER:
        pending: Pending = Written(connection, single, partition, staged)
    else:
        pending = Pending.__new__(Pending)
        pending.connection = connection
        widen(pending, single, partition, staged, error)
    connection.place(pending)
    return pending


def _plain_partition(broker: Broker, single: Single) -> Partition | None:
    """Where the batch goes, if its log is open and takes it as it is."""
    version, _, _, _, name, index, _, _, header = single
    topic = broker.topic(name) if isinstance(name, str) else broker.topic_by_id(name)
    if topic is None or topic.is_guarded or topic.window_ms or not 0 <= index < len(topic.partitions):
        return None
    partition = topic.partitions[index]
    attributes = header.attributes
    if partition.log is None or attributes & SPECIAL:
        return None
    return None if version < ZSTD_FROM and attributes & COMPRESSION_MASK == ZSTD else partition


def widen(
    pending: Pending, single: Single, partition: Partition, staged: Staged | None, error: HeadraceError | None = None
) -> None:
    """Makes it what the general way would have made of the request."""
    version, correlation_id, acks, timeout_ms, topic, index, start, stop, _ = single
    name, topic_id = (None, uuid_of(topic)) if isinstance(topic, bytes) else (topic, None)
    pending.version, pending.correlation_id = version, correlation_id
    pending.request = ProduceRequest(None, acks, timeout_ms, [TopicData(name, topic_id, [(index, start, stop)])])
    part = Part(index, start, stop)
    part.partition, part.staged, part.error = partition, staged, error
    pending.parts = [part]
    pending.buffers, pending.ready_bytes, pending.waiting = None, 0, 0
