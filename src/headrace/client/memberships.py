"""What consumers write into a group's protocol: which topics a member wants, which partitions it was given.

The broker hands these bytes on without reading them, and other kinds of groups (Kafka Connect, say) have formats of
their own: bytes that do not read as a consumer's say nothing, and are no fault.

A subscription is: version, topics, data of the assignor's; from 1 on the partitions that the member holds, from 2 on
the generation in which it got them, from 3 on its rack. An assignment is: version, partitions by topic, data. All
members of a group understand these bytes, whichever client they are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headrace.client.values import TopicPartition
from headrace.ports import Buffer

SUBSCRIPTION_VERSION: Final = 3
ASSIGNMENT_VERSION: Final = 0  # later ones are the same
NO_GENERATION: Final = -1

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


class _Strange(Exception):
    """Not a consumer's bytes."""


class _Bytes:
    def __init__(self, buffer: Buffer) -> None:
        self._buffer, self._at = bytes(buffer), 0

    def int16(self) -> int:
        return int(self._number(_INT16))

    def int32(self) -> int:
        return int(self._number(_INT32))

    def text(self) -> str:
        size = self.int16()
        end = self._at + size
        if size < 0 or end > len(self._buffer):
            raise _Strange
        try:
            text = self._buffer[self._at : end].decode()
        except UnicodeDecodeError as error:
            raise _Strange from error
        self._at = end
        return text

    def data(self) -> bytes:
        size = self.int32()
        if size < 0:
            return b""
        end = self._at + size
        if end > len(self._buffer):
            raise _Strange
        found, self._at = self._buffer[self._at : end], end
        return found

    def partitions(self) -> list[TopicPartition]:
        found = []
        for _ in range(self.count()):
            topic = self.text()
            found += [TopicPartition(topic, self.int32()) for _ in range(self.count())]
        return found

    def count(self) -> int:
        """Of what follows; each takes two bytes at least."""
        count = self.int32()
        if not 0 <= count <= (len(self._buffer) - self._at) // 2:
            raise _Strange
        return count

    def _number(self, form: struct.Struct) -> int:
        if self._at + form.size > len(self._buffer):
            raise _Strange
        (number,) = form.unpack_from(self._buffer, self._at)
        self._at += form.size
        return int(number)


def wanted_topics(subscription: Buffer) -> tuple[str, ...]:
    """Of a member's metadata, all versions: the version, then its topics."""
    try:
        read = _Bytes(subscription)
        read.int16()
        return tuple(sorted(read.text() for _ in range(read.count())))
    except _Strange:
        return ()


def given_partitions(assignment: Buffer) -> tuple[TopicPartition, ...]:
    """Of a member's assignment, all versions: the version, then topics with their partitions."""
    try:
        read = _Bytes(assignment)
        read.int16()
        return tuple(sorted(read.partitions()))
    except _Strange:
        return ()


class Subscription(NamedTuple):
    """What a member says when it joins."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()  # that it still holds
    generation: int = NO_GENERATION  # in which it got them
    instance: str | None = None  # a static member's name; not part of the bytes


def read_subscription(metadata: Buffer, instance: str | None = None) -> Subscription:
    """Bytes that are not a consumer's want nothing."""
    topics, owned, generation = tuple[str, ...](), tuple[TopicPartition, ...](), NO_GENERATION
    try:
        read = _Bytes(metadata)
        version = read.int16()
        topics = tuple(read.text() for _ in range(read.count()))
        data = read.data()
        if len(data) >= _INT32.size:  # where sticky assignors said it before there was a field for it
            generation = int(_INT32.unpack_from(data)[0])
        if version >= 1:
            owned = tuple(read.partitions())
        if version >= 2:
            generation = read.int32()
    except _Strange:
        pass
    return Subscription(topics, owned, generation, instance)


def put_subscription(subscription: Subscription) -> bytes:
    out = bytearray(_INT16.pack(SUBSCRIPTION_VERSION))
    out += _INT32.pack(len(subscription.topics))
    for topic in subscription.topics:
        out += _text(topic)
    out += _INT32.pack(_INT32.size) + _INT32.pack(subscription.generation)
    out += _partitions(subscription.owned)
    out += _INT32.pack(subscription.generation) + _INT16.pack(-1)  # no rack
    return bytes(out)


def put_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    return _INT16.pack(ASSIGNMENT_VERSION) + _partitions(partitions) + _INT32.pack(-1)  # no data


def by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    topics = by_topic(partitions)
    out = bytearray(_INT32.pack(len(topics)))
    for topic, indexes in topics.items():
        out += _text(topic) + _INT32.pack(len(indexes)) + b"".join(map(_INT32.pack, indexes))
    return bytes(out)


def _text(text: str) -> bytes:
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw
