"""The atoms of Kafka's protocol: integers, texts, arrays, varints, tagged fields, uuids.

Two ways to read. `Reader` checks every step against the end of the message and is for messages that come now
and then. Produce and Fetch walk positions by themselves with the functions below, read ahead of their check,
and compare with the end once per partition: a wrong length can only move the position forward, so it is found
before anything is believed.

Nothing is allocated by a count: arrays are walked, each element takes at least a byte, and a message has at
most MAX_ELEMENTS of them, since a byte on the wire may become a hundred in memory. "Flexible"
versions write lengths as varints of length + 1 (0 is null) and end every structure with tagged fields; the
older ones write -1 for null.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from uuid import UUID

from headrace.ports import Buffer
from headrace.wire.kafka.errors import InvalidRequest, MalformedRequest

NIL_UUID: Final = UUID(int=0)

# Of all arrays of one message together: ten times the partitions that one node is built for.
MAX_ELEMENTS: Final = 100_000

# Of a request: each costs up to 50 µs until it is answered, all of them while others wait. A topic of 10,000
# partitions, each assigned by hand, has as many; so has a fetch of all the partitions that a node is built for.
MAX_ASKED: Final = 20_010

# Of all tagged fields of one message together: each costs a microsecond and takes but two bytes. A follower of
# Kafka sends two with each partition that it fetches.
MAX_TAGS: Final = 2 * MAX_ASKED + 1_000

# What the 2-byte length of the older versions has room for; Kafka holds texts of flexible versions to it too.
MAX_STRING_BYTES: Final = (1 << 15) - 1

# A length in a varint is at most 32 bits: five groups of seven.
MAX_UVARINT_BYTES: Final = 5

# The ids of topics that clients ask for again and again; finding one costs a tenth of making it.
_UUID_CACHE_SIZE: Final = 4096

# What reading past the end of a buffer, or text that is none, raises; every decoder turns these into
# MalformedRequest.
READ_ERRORS: Final = (struct.error, IndexError, UnicodeDecodeError)

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_FLOAT64 = struct.Struct(">d")


@lru_cache(maxsize=_UUID_CACHE_SIZE)
def uuid_of(sixteen: bytes) -> UUID:
    return UUID(bytes=sixteen)


def text_of(buffer: Buffer, start: int, end: int) -> str:
    return str(buffer[start:end], "utf-8")


def read_uvarint(buffer: Buffer, at: int) -> tuple[int, int]:
    """An unsigned varint and the position after it."""
    value = buffer[at]
    at += 1
    if value < 0x80:
        return value, at
    value &= 0x7F
    for shift in range(7, 7 * MAX_UVARINT_BYTES, 7):
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise MalformedRequest("a varint longer than five bytes")


def skip_tags(buffer: Buffer, at: int, end: int, limit: int) -> tuple[int, int]:
    """The position after tagged fields nobody here knows, and what is left of `limit`; almost always there are none."""
    count, at = read_uvarint(buffer, at)
    if count > limit:
        raise MalformedRequest("more tagged fields than a message may have")
    for _ in range(count):
        _, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        at += size
        if at > end:
            raise MalformedRequest("a tagged field runs past the end")
    return at, limit - count


class Reader:
    """One message, read from front to back; every step is checked against its end."""

    __slots__ = ("at", "buffer", "elements_left", "end", "flexible", "tags_left")

    def __init__(self, buffer: Buffer, at: int, end: int, flexible: bool, max_elements: int = MAX_ELEMENTS) -> None:
        if not 0 <= at <= end <= len(buffer):
            raise MalformedRequest(f"a message of bytes {at} to {end} in a buffer of {len(buffer)}")
        self.buffer, self.at, self.end, self.flexible = buffer, at, end, flexible
        self.elements_left, self.tags_left = max_elements, MAX_TAGS

    def take(self, size: int) -> int:
        """Steps over `size` bytes; where they begin."""
        at = self.at
        if size < 0 or at + size > self.end:
            raise MalformedRequest(f"{size} bytes wanted where {self.end - at} are left")
        self.at = at + size
        return at

    def int8(self) -> int:
        value = self.buffer[self.take(1)]
        return value - 256 if value > 127 else value

    def boolean(self) -> bool:
        return self.buffer[self.take(1)] != 0

    def int16(self) -> int:
        value: int = _INT16.unpack_from(self.buffer, self.take(2))[0]
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack_from(self.buffer, self.take(4))[0]
        return value

    def int64(self) -> int:
        value: int = _INT64.unpack_from(self.buffer, self.take(8))[0]
        return value

    def float64(self) -> float:
        value: float = _FLOAT64.unpack_from(self.buffer, self.take(8))[0]
        return value

    def uvarint(self) -> int:
        if self.at >= self.end:
            raise MalformedRequest("a varint wanted where nothing is left")
        try:
            value, at = read_uvarint(self.buffer, self.at)
        except IndexError:
            raise MalformedRequest("a varint runs past the end") from None
        if at > self.end:
            raise MalformedRequest("a varint runs past the end")
        self.at = at
        return value

    def uuid(self) -> UUID:
        at = self.take(16)
        return uuid_of(bytes(self.buffer[at : at + 16]))

    def nullable_bytes(self) -> bytes | None:
        size = self.uvarint() - 1 if self.flexible else self.int32()
        if size == -1:
            return None
        at = self.take(size)
        return bytes(self.buffer[at : at + size])

    def nullable_string(self) -> str | None:
        size = self.uvarint() - 1 if self.flexible else self.int16()
        if size == -1:
            return None
        if size > MAX_STRING_BYTES:
            raise MalformedRequest(f"a text of {size} bytes, where {MAX_STRING_BYTES} are the most")
        at = self.take(size)
        try:
            return text_of(self.buffer, at, at + size)
        except UnicodeDecodeError:
            raise MalformedRequest("a text that is not UTF-8") from None

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise MalformedRequest("a null where a text has to be")
        return value

    def nullable_array(self) -> range | None:
        """Goes round once per element."""
        count = self.uvarint() - 1 if self.flexible else self.int32()
        if count == -1:
            return None
        if not 0 <= count <= self.end - self.at:
            raise MalformedRequest(f"an array of {count} elements in {self.end - self.at} bytes")
        self.elements_left -= count
        if self.elements_left < 0:
            raise MalformedRequest("more array elements than a message of its kind may have")
        return range(count)

    def array(self) -> range:
        rounds = self.nullable_array()
        if rounds is None:
            raise MalformedRequest("a null where an array has to be")
        return rounds

    def tags(self) -> Iterator[int]:
        """Goes round once per tagged field, with its tag; what the round leaves unread is stepped over."""
        if not self.flexible:
            return
        count = self.uvarint()
        self.tags_left -= count
        if self.tags_left < 0:
            raise MalformedRequest("more tagged fields than a message may have")
        for _ in range(count):
            tag, size = self.uvarint(), self.uvarint()
            start = self.take(size)
            self.at = start
            yield tag
            if self.at > start + size:
                raise MalformedRequest(f"tagged field {tag} is longer than it says")
            self.at = start + size

    def skip_tags(self) -> None:
        if not self.flexible:
            return
        if self.at < self.end and self.buffer[self.at] == 0:  # almost always
            self.at += 1
            return
        for _ in self.tags():
            pass

    def finish(self) -> None:
        if self.at != self.end:
            raise MalformedRequest(f"{self.end - self.at} bytes after the end of the message")


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(text: str | None, flexible: bool) -> bytes:
    """A text, or null, with its length in front. Names that were read and texts of `code_for` always fit."""
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    raw = text.encode()
    if len(raw) > MAX_STRING_BYTES:
        raise InvalidRequest(f"a text of {len(raw)} bytes, where {MAX_STRING_BYTES} are the most")
    return (uvarint(len(raw) + 1) if flexible else _INT16.pack(len(raw))) + raw


def byte_string(data: Buffer, flexible: bool) -> bytes:
    """Bytes with their length in front."""
    return b"".join((uvarint(len(data) + 1) if flexible else _INT32.pack(len(data)), data))


def array(count: int | None, flexible: bool) -> bytes:
    """The head of an array of `count` elements; None is null."""
    if flexible:
        return uvarint(0 if count is None else count + 1)
    return _INT32.pack(-1 if count is None else count)


def tagged(fields: list[tuple[int, bytes]]) -> bytes:
    """Tagged fields, in the order of their tags, as the protocol wants them."""
    out = bytearray(uvarint(len(fields)))
    for tag, value in fields:
        out += uvarint(tag) + uvarint(len(value)) + value
    return bytes(out)
