"""The records of `__queue_state`. Keys begin with their kind, values with their version; integers are big-endian, texts
have their length in 2 bytes in front.

key 0    door, topic, group               a queue            value 0: topic id, flags, made and redelivered when;
                                                                      then, or nothing: dead-letter topic, offsets
key 1    door, topic, group, partition    one of its         value 0: topic id, leader epoch, end, pending offsets
key 2    topic, name, partition           a position         value 0: topic id, leader epoch, offset, when

A null value: it is gone. All before a partition's end is settled, except for what is pending: runs of offsets, each as
how far it lies behind the one before, how many offsets, and their attempts, in variable-length integers. Topic ids tell
a topic from an earlier one of the same name. The leader epoch tells what a leader lost since.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from headrace.broker.queues.snapshot import Snapshot
from headrace.errors import FormatTooNew
from headrace.wire.kafka.primitives import Reader, string, uvarint

QUEUE_KEY, PARTITION_KEY, POSITION_KEY = 0, 1, 2
VERSION = 0
AT_MOST_ONCE, FROM_START = 1, 2

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_QUEUE = struct.Struct(">h16sbqq")
_PARTITION = struct.Struct(">h16siqi")  # version, topic id, leader epoch, end, runs
_FIRST = struct.Struct(">q")
_POSITION = struct.Struct(">h16siqq")


class QueueKey(NamedTuple):
    door: str
    topic: str
    group: str


class PartitionKey(NamedTuple):
    queue: QueueKey
    partition: int


class PositionKey(NamedTuple):
    topic: str
    name: str
    partition: int


class Redelivered(NamedTuple):
    """How far a dead-letter topic's letters were delivered again: by place, as many may bear one time."""

    topic_id: bytes
    offsets: tuple[int, ...]  # the next of each of its partitions


class SavedQueue(NamedTuple):
    topic_id: bytes
    at_most_once: bool
    from_start: bool  # a partition that it does not know yet begins at its start
    made_ms: int
    redelivered_ms: int = -1  # when dead letters were last delivered again
    redelivered: Redelivered | None = None  # None: what is known is the time


class SavedPartition(NamedTuple):
    topic_id: bytes
    leader_epoch: int
    snapshot: Snapshot


class SavedPosition(NamedTuple):
    topic_id: bytes
    leader_epoch: int
    offset: int
    committed_ms: int


def queue_key(key: QueueKey) -> bytes:
    return _INT16.pack(QUEUE_KEY) + _names(*key)


def partition_key(key: QueueKey, partition: int) -> bytes:
    return _INT16.pack(PARTITION_KEY) + _names(*key) + _INT32.pack(partition)


def position_key(key: PositionKey) -> bytes:
    return _INT16.pack(POSITION_KEY) + _names(key.topic, key.name) + _INT32.pack(key.partition)


def _names(*names: str) -> bytes:
    return b"".join(string(name, False) for name in names)


def queue_value(queue: SavedQueue) -> bytes:
    flags = AT_MOST_ONCE * queue.at_most_once | FROM_START * queue.from_start
    value = _QUEUE.pack(VERSION, queue.topic_id, flags, queue.made_ms, queue.redelivered_ms)
    if queue.redelivered is None:
        return value
    topic_id, offsets = queue.redelivered
    return value + topic_id + struct.pack(f">i{len(offsets)}q", len(offsets), *offsets)


def partition_value(topic_id: bytes, leader_epoch: int, snapshot: Snapshot) -> bytes:
    runs = _runs(snapshot.pending)
    out = bytearray(_PARTITION.pack(VERSION, topic_id, leader_epoch, snapshot.end, len(runs)))
    if runs:
        behind = runs[0][0]
        out += _FIRST.pack(behind)
        for first, count, attempts in runs:
            out += uvarint(first - behind) + uvarint(count) + uvarint(attempts)
            behind = first + count
    return bytes(out)


def _runs(pending: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """First offset, how many, attempts: of neighbours that are alike."""
    runs: list[tuple[int, int, int]] = []
    first = count = attempts = 0
    for offset, tries in pending.items():
        if count and offset == first + count and tries == attempts:
            count += 1
        else:
            if count:
                runs.append((first, count, attempts))
            first, count, attempts = offset, 1, tries
    if count:
        runs.append((first, count, attempts))
    return runs


def position_value(position: SavedPosition) -> bytes:
    return _POSITION.pack(VERSION, *position)


def read_key(raw: bytes) -> QueueKey | PartitionKey | PositionKey | None:
    """None: a kind that this program does not know."""
    reader = Reader(raw, 0, len(raw), flexible=False)
    kind = reader.int16()
    if kind == QUEUE_KEY:
        return QueueKey(reader.string(), reader.string(), reader.string())
    if kind == PARTITION_KEY:
        return PartitionKey(QueueKey(reader.string(), reader.string(), reader.string()), reader.int32())
    return PositionKey(reader.string(), reader.string(), reader.int32()) if kind == POSITION_KEY else None


def read_queue(raw: bytes) -> SavedQueue:
    _check(raw, "a queue")
    _, topic_id, flags, made_ms, redelivered_ms = _QUEUE.unpack_from(raw)
    redelivered, at = None, _QUEUE.size + 16
    if len(raw) > at:
        (count,) = _INT32.unpack_from(raw, at)
        redelivered = Redelivered(raw[at - 16 : at], struct.unpack_from(f">{count}q", raw, at + _INT32.size))
    flagged = bool(flags & AT_MOST_ONCE), bool(flags & FROM_START)
    return SavedQueue(topic_id, *flagged, made_ms, redelivered_ms, redelivered)


def read_partition(raw: bytes) -> SavedPartition:
    _check(raw, "a queue's partition")
    _, topic_id, leader_epoch, end, runs = _PARTITION.unpack_from(raw)
    pending: dict[int, int] = {}
    if runs:
        at = _PARTITION.size + _FIRST.size
        (offset,) = _FIRST.unpack_from(raw, _PARTITION.size)
        for _ in range(runs):
            gap, at = _varint(raw, at)
            count, at = _varint(raw, at)
            attempts, at = _varint(raw, at)
            offset += gap
            pending |= dict.fromkeys(range(offset, offset + count), attempts)
            offset += count
    return SavedPartition(topic_id, leader_epoch, Snapshot(end, pending))


def read_position(raw: bytes) -> SavedPosition:
    _check(raw, "a position")
    _, topic_id, leader_epoch, offset, committed_ms = _POSITION.unpack_from(raw)
    return SavedPosition(topic_id, leader_epoch, offset, committed_ms)


def _check(raw: bytes, what: str) -> None:
    (version,) = _INT16.unpack_from(raw)
    if version != VERSION:
        raise FormatTooNew(f"{what} is kept in version {version}; this program reads up to {VERSION}")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
