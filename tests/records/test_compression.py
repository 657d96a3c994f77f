from __future__ import annotations

import contextlib
import gzip
import random
import struct
import tracemalloc

import cramjam
import pyarrow as pa
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptBatch, DecompressionLimit
from headrace.records import compression
from headrace.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress

ALL = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
REAL = ALL[1:]
MIXED = b"".join(random.Random(7).choice((b"tick ", b"tock ", b"\x00\xff")) for _ in range(40_000))


@pytest.mark.parametrize("kind", ALL)
@given(st.binary(max_size=3_000) | st.integers(0, 200_000).map(bytes))
def test_every_compression_gives_back_what_it_took(kind: int, data: bytes) -> None:
    assert bytes(decompress(kind, bytes(compress(kind, data)))) == data


@pytest.mark.parametrize("kind", REAL)
def test_it_makes_repetitive_data_smaller(kind: int) -> None:
    assert len(compress(kind, MIXED)) < len(MIXED) / 2


@pytest.mark.parametrize("kind", REAL)
def test_any_kind_of_buffer_will_do(kind: int) -> None:
    for given_data in (MIXED, bytearray(MIXED), memoryview(MIXED)):
        packed = compress(kind, given_data)
        for buffer in (bytes(packed), bytearray(packed), memoryview(bytes(packed))):
            assert bytes(decompress(kind, buffer)) == MIXED


def test_aiokafka_reads_ours_and_we_read_its() -> None:
    pairs = {
        GZIP: (aiokafka_codec.gzip_encode, aiokafka_codec.gzip_decode),
        SNAPPY: (aiokafka_codec.snappy_encode, aiokafka_codec.snappy_decode),
        LZ4: (aiokafka_codec.lz4_encode, aiokafka_codec.lz4_decode),
        ZSTD: (aiokafka_codec.zstd_encode, aiokafka_codec.zstd_decode),
    }
    for kind, (encode, decode) in pairs.items():
        assert bytes(decompress(kind, bytes(encode(MIXED)))) == MIXED
        assert bytes(decode(bytes(compress(kind, MIXED)))) == MIXED


@pytest.mark.parametrize(("kind", "name"), [(GZIP, "gzip"), (LZ4, "lz4"), (ZSTD, "zstd"), (SNAPPY, "snappy")])
def test_another_implementation_reads_ours_and_we_read_its(kind: int, name: str) -> None:
    assert bytes(decompress(kind, pa.compress(MIXED, codec=name, asbytes=True))) == MIXED
    if kind != SNAPPY:  # Arrow has no xerial framing
        assert pa.decompress(bytes(compress(kind, MIXED)), len(MIXED), codec=name, asbytes=True) == MIXED


def test_lz4_blocks_are_independent_because_java_refuses_others() -> None:
    flags = bytes(compress(LZ4, MIXED))[4]
    assert flags >> 6 == 1 and flags & 0x20


def test_snappy_is_written_as_java_frames_it() -> None:
    packed = bytes(compress(SNAPPY, MIXED))
    assert packed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (length,) = struct.unpack_from(">i", packed, 16)
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + length])) == MIXED[: 32 << 10]


def test_a_raw_snappy_block_is_read_too() -> None:
    assert bytes(decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(MIXED)))) == MIXED


@pytest.mark.parametrize("kind", [GZIP, LZ4, ZSTD])
def test_members_one_after_the_other_are_read_as_one(kind: int) -> None:
    assert bytes(decompress(kind, bytes(compress(kind, MIXED)) + bytes(compress(kind, b"more")))) == MIXED + b"more"


@pytest.mark.parametrize("kind", REAL)
def test_a_body_over_the_limit_is_refused_and_one_at_the_limit_is_not(kind: int) -> None:
    packed = bytes(compress(kind, bytes(100_000)))
    assert len(decompress(kind, packed, 100_000)) == 100_000
    for limit in (99_999, 20_000, 1, 0):
        with pytest.raises(DecompressionLimit, match=f"more than the {limit} allowed"):
            decompress(kind, packed, limit)


@pytest.mark.parametrize("kind", REAL)
def test_a_bomb_costs_the_limit_at_most(kind: int) -> None:
    packed = bytes(compress(kind, bytes(200 << 20)))
    limit = 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionLimit):
            decompress(kind, packed, limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit + 64_000


def test_a_snappy_block_that_lies_about_its_size_allocates_nothing() -> None:
    lie = b"\x80\x80\x80\x20" + b"\x00" * 20  # says 64 MiB
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="can not hold"):
            decompress(SNAPPY, lie)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", REAL)
def test_damaged_bodies_give_bytes_or_corrupt_batch_and_nothing_else(kind: int) -> None:
    packed, random_bits = bytes(compress(kind, MIXED[:3_000])), random.Random(kind)
    for _ in range(400):
        damaged = bytearray(packed)
        for _ in range(random_bits.randint(1, 4)):
            damaged[random_bits.randrange(len(damaged))] ^= 1 << random_bits.randrange(8)
        del damaged[random_bits.randrange(len(damaged) + 1) if random_bits.random() < 0.3 else len(damaged) :]
        with contextlib.suppress(CorruptBatch):
            decompress(kind, damaged, 1 << 20)


@pytest.mark.parametrize("kind", REAL)
def test_a_body_cut_off_anywhere_never_reads_back_whole(kind: int) -> None:
    packed = bytes(compress(kind, MIXED[:500]))
    for size in range(len(packed)):
        with contextlib.suppress(CorruptBatch):
            assert bytes(decompress(kind, packed[:size])) != MIXED[:500]


def test_a_compression_that_is_not_known_is_named() -> None:
    for kind in (5, 7, -1):
        with pytest.raises(CorruptBatch, match=f"compression {kind} is not known"):
            decompress(kind, b"")
    with pytest.raises(ValueError, match="'brotli' is not one of none, gzip, snappy, lz4, zstd"):
        compression.number("brotli")


def test_gzip_of_the_standard_library_is_read() -> None:
    assert bytes(decompress(GZIP, gzip.compress(MIXED))) == MIXED
    assert gzip.decompress(bytes(compress(GZIP, MIXED))) == MIXED
