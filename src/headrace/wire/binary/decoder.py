"""Bytes in, frames out. It knows no socket; fed whole or byte by byte, it gives the same frames and the same error.

A frame is refused as soon as its bytes show that it is none: a length below the head's or over the limit, a type that
there is not, properties longer than the frame. What came before it has been given already.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from headrace.ports import Buffer
from headrace.wire.binary.frame import (
    HEAD,
    HEAD_BYTES,
    TYPES,
    Frame,
    MalformedFrame,
    Type,
    complete,
    parse_properties,
)

MAX_FRAME_BYTES = 64 << 20  # far over any message that a topic takes by default, and little to hold for a connection

COPIED_BYTES = 256 << 10  # what one read brings

_U32 = Struct(">I")
_TYPE_END, _SIZES_END = 8, 28  # where the type and the first of the two lengths are whole
ANY_TYPE = int(Type.DATA)  # as long as it is not known


class Decoder:
    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._kept = bytearray()
        self._total = 0  # of the unfinished frame, once its lengths were looked at

    @property
    def unfinished_bytes(self) -> int:
        return len(self._kept)

    def feed(self, data: Buffer) -> Iterator[Frame]:
        """The frames that are whole now, one after the other. To be gone through to its end; nothing of `data` is
        kept but copies."""
        kept = self._kept
        if kept:
            kept += data
            if len(kept) < self._total:
                return
            self._kept, data = bytearray(), memoryview(kept)
        if len(data) <= COPIED_BYTES:
            data = bytes(data)  # its slices cost half of a view's
        at, end = 0, len(data)
        while end - at >= HEAD_BYTES:
            total, type_, sequence, timestamp_ms, size, body_bytes = HEAD.unpack_from(data, at)
            self._check(total, type_, size)
            if at + total > end:
                break
            block, body = at + HEAD_BYTES, at + HEAD_BYTES + size
            at += total
            if body_bytes != at - body:
                block = _block_on_paper(data, block, size, at - body, total)
            properties = parse_properties(bytes(data[block : block + size]))
            complete(properties, timestamp_ms)
            yield Frame(type_, sequence, timestamp_ms, properties, bytes(data[body:at]), total)
        if at < end:
            self._keep(data, at, end)

    def _keep(self, data: Buffer, at: int, end: int) -> None:
        """The beginning of a frame; raises what shows of it already."""
        self._kept += data[at:end]
        self._total, there = 0, end - at
        if there >= _U32.size:
            total: int = _U32.unpack_from(data, at)[0]
            type_ = _U32.unpack_from(data, at + _U32.size)[0] if there >= _TYPE_END else ANY_TYPE
            size = _U32.unpack_from(data, at + _TYPE_END + 16)[0] if there >= _SIZES_END else 0
            self._check(total, type_, size)
            self._total = total if there >= _SIZES_END else 0  # then nothing more can show before it is whole

    def _check(self, total: int, type_: int, size: int) -> None:
        if not HEAD_BYTES <= total <= self.max_frame_bytes:
            raise MalformedFrame(f"a frame of {total} bytes: from {HEAD_BYTES} to {self.max_frame_bytes} are taken")
        if type_ not in TYPES:
            raise MalformedFrame(f"message type {type_}: there is none")
        if size > total - HEAD_BYTES:
            raise MalformedFrame(f"{size} bytes of properties do not fit in a frame of {total}")


def _block_on_paper(data: Buffer, block: int, size: int, body_bytes: int, total: int) -> int:
    """Where the properties begin in the other layout: no second length in the head, but one before the body."""
    block -= _U32.size
    if _U32.unpack_from(data, block + size)[0] != body_bytes:
        raise MalformedFrame(f"the lengths in a frame of {total} bytes do not add up")
    return block
