"""What consumers write into a group's protocol: which topics a member wants, which partitions it was given.

The broker hands these bytes on without reading them, and other kinds of groups (Kafka Connect, say) have formats of
their own: bytes that do not read as a consumer's say nothing, and are no fault.
"""

from __future__ import annotations

import struct

from headrace.client.values import TopicPartition
from headrace.ports import Buffer

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
        found = []
        for _ in range(read.count()):
            topic = read.text()
            found += [TopicPartition(topic, read.int32()) for _ in range(read.count())]
        return tuple(sorted(found))
    except _Strange:
        return ()
