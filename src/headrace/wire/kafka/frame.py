"""Frames: a 4-byte size, then that many bytes. A size is checked before anything is allocated by it."""

from __future__ import annotations

import struct
from typing import Final, NoReturn

from headrace.ports import Buffer
from headrace.wire.kafka.errors import MalformedRequest

SIZE_BYTES: Final = 4

# Kafka's own `socket.request.max.bytes`: clients are tuned to stay below it.
MAX_REQUEST_BYTES: Final = 100 * 1024 * 1024

# An api key, a version, a correlation id and a null client id: nothing shorter is a request.
MIN_REQUEST_BYTES: Final = 10

_SIZE = struct.Struct(">i")


def frame_size(buffer: Buffer, at: int, limit: int = MAX_REQUEST_BYTES) -> int:
    """The size of the frame whose first 4 bytes lie at `at`, without these 4; refused when no request has
    that size.
    """
    size: int = _SIZE.unpack_from(buffer, at)[0]
    if not MIN_REQUEST_BYTES <= size <= limit:
        refuse(size, limit)
    return size


def refuse(size: int, limit: int) -> NoReturn:
    raise MalformedRequest(f"a frame of {size} bytes; a request has {MIN_REQUEST_BYTES} to {limit}")
