"""Both kernels, and records and batches to give them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from headrace.errors import HeadraceError
from headrace.records import codec, twin
from headrace.records.record import Record

try:
    import headrace_native as native
except ImportError:
    native = None

KERNELS = [twin] if native is None else [twin, native]
COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"]

contents = st.none() | st.binary(max_size=200)
times = st.integers(-1, 1 << 45) | st.integers(-(1 << 61), 1 << 61)
headers = st.lists(st.tuples(st.text(max_size=12), contents), max_size=4).map(tuple)
records = st.builds(Record, contents, contents, headers, times)
runs_of_records = st.lists(records, min_size=1, max_size=12)


def name(kernel: Any) -> str:
    return kernel.__name__.rpartition(".")[2]


def numbered(given: list[Record], first: int = 0) -> list[Record]:
    """As they read back, with their offsets."""
    return [record._replace(offset=first + index) for index, record in enumerate(given)]


def plain_batch(count: int = 3, base_offset: int = 0) -> bytearray:
    given = [Record(b"k%d" % index, b"v" * 20, (("h", b"1"),), 1_000 + index) for index in range(count)]
    return codec.encode(given, codec.BatchOptions(base_offset=base_offset))


def patched(batch: bytes | bytearray, layout: str, at: int, value: int, *, seal: bool = True) -> bytearray:
    """The batch with one field changed, and a checksum that is right for it unless told otherwise."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, at, value)
    if seal:
        struct.pack_into(">I", changed, 17, twin.crc32c(bytes(changed[21:])))
    return changed


def outcome(work: Callable[..., Any], *arguments: Any) -> Any:
    """What it gives, or the class and the words of what it raises: two kernels must have the same."""
    try:
        return normal(work(*arguments))
    except (HeadraceError, ValueError) as error:
        return type(error), str(error)


def normal(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [normal(item) for item in value]
    if native is not None and isinstance(value, native.Block):
        return bytes(value)
    return bytes(value) if isinstance(value, bytearray) else value
