"""The five compressions of a batch's records, by their Kafka numbers and names.

What comes out is bounded before it is made: the output is a buffer of a fixed size that the codec can not
outgrow, tried again larger until it fits or the limit says no. So a few bytes that unfold to gigabytes cost
the limit at most.

Traps that other implementations set:
- lz4: Kafka's frames have independent blocks; Java refuses the others, which are the codec's default.
- snappy: Java writes xerial's framing (blocks behind a magic), some clients a single raw block. Both are
  read, xerial is written. A raw block states its own size: believed only as far as snappy can shrink
  anything.
- zstd and lz4 frames need not say their size; gzip, zstd and lz4 may be several members one after the other.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import cramjam

from headrace.errors import CorruptBatch, DecompressionLimit
from headrace.ports import Buffer
from headrace.records.header import LAST_COMPRESSION, MAX_BATCH_BYTES

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(LAST_COMPRESSION + 1)

MAX_DECOMPRESSED_BYTES = MAX_BATCH_BYTES  # what a batch may be without compression it may be with it
FIRST_GUESS_RATIO = 4  # most bodies shrink less than this, so that the first try fits
FIRST_GUESS_BYTES = 16 << 10
GROWTH = 4  # all the tries before the one that fits cost a third of it
GZIP_LEVEL = 6
ZSTD_LEVEL = 3

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, oldest version that can read it
XERIAL_BLOCK_BYTES = 32 << 10  # as Java's
SNAPPY_MAX_RATIO = 22  # three bytes copy 64 at most
TOO_SMALL = "failed to write whole buffer"  # how cramjam says that the output buffer is full

_LENGTH = struct.Struct(">i")
_INTO: dict[int, Callable[[Buffer, bytearray], int]] = {
    GZIP: cramjam.gzip.decompress_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}


def number(name: str) -> int:
    if name not in NAMES:
        raise ValueError(f"compression {name!r} is not one of {', '.join(NAMES)}")
    return NAMES.index(name)


def compress(compression: int, data: Buffer) -> Buffer:
    if compression == NONE:
        return data
    if compression == GZIP:
        return memoryview(cramjam.gzip.compress(data, GZIP_LEVEL))
    if compression == SNAPPY:
        return _to_xerial(memoryview(data))
    if compression == LZ4:
        frame = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
        frame.compress(bytes(data))
        return memoryview(frame.finish())
    if compression == ZSTD:
        return memoryview(cramjam.zstd.compress(data, ZSTD_LEVEL))
    raise ValueError(f"compression {compression} is not known")


def decompress(compression: int, data: Buffer, limit_bytes: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """The records as they were. DecompressionLimit when that is more than `limit_bytes`."""
    if compression == NONE:
        return data
    if not NONE < compression <= LAST_COMPRESSION:
        raise CorruptBatch(f"compression {compression} is not known")
    try:
        if compression == SNAPPY:
            return _from_snappy(memoryview(data), limit_bytes)
        return _grow(_INTO[compression], data, limit_bytes)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"the {NAMES[compression]} data does not unfold: {error}") from error


def _grow(into: Callable[[Buffer, bytearray], int], data: Buffer, limit_bytes: int) -> memoryview:
    room = min(limit_bytes, max(FIRST_GUESS_BYTES, len(data) * FIRST_GUESS_RATIO))
    while True:
        out = bytearray(room)
        try:
            return memoryview(out)[: into(data, out)]
        except cramjam.DecompressionError as error:
            if TOO_SMALL not in str(error):
                raise
        if room >= limit_bytes:
            raise _over(limit_bytes, data)
        del out  # before the next is made, so that the two are never there at once
        room = min(limit_bytes, room * GROWTH)


def _to_xerial(data: memoryview) -> bytearray:
    out = bytearray(XERIAL_HEADER)
    for at in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = memoryview(cramjam.snappy.compress_raw(data[at : at + XERIAL_BLOCK_BYTES]))
        out += _LENGTH.pack(len(block))
        out += block
    return out


def _from_snappy(data: memoryview, limit_bytes: int) -> memoryview:
    size = 0
    for block in _snappy_blocks(data):
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > len(block) * SNAPPY_MAX_RATIO:
            raise CorruptBatch(f"{len(block)} bytes of snappy data can not hold {claimed}")
        size += claimed
        if size > limit_bytes:
            raise _over(limit_bytes, data)
    out = memoryview(bytearray(size))
    at = 0
    for block in _snappy_blocks(data):
        at += cramjam.snappy.decompress_raw_into(block, out[at:])
    return out[:at]


def _snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    """One after the other and never as a list: a body can hold millions of tiny ones."""
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        yield data
        return
    at = len(XERIAL_HEADER)
    while at < len(data):
        if len(data) - at < _LENGTH.size:
            raise CorruptBatch("the snappy data ends within a block's length")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if not 0 <= length <= len(data) - at:
            raise CorruptBatch(f"a snappy block of {length} bytes where {len(data) - at} are left")
        yield data[at : at + length]
        at += length


def _over(limit_bytes: int, data: Buffer) -> DecompressionLimit:
    return DecompressionLimit(f"a body of {len(data)} bytes unfolds to more than the {limit_bytes} allowed")
