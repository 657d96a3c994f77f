"""The snapshot of a log: what recovery need not find out again. Everything in it was synced before it was
written.

It is replaced whole (a new file, synced, takes the old one's name) and proves a sync as a mark does. A
snapshot whose bytes are not one is as good as none: the log is then walked from its start. One that the disk does
not give may be whole, and is all that tells which records were deleted: the log is not opened without it.
"""

from __future__ import annotations

import msgspec

from headrace.log.format import SNAPSHOT, SNAPSHOT_HEADER, SNAPSHOT_MAGIC, VERSION, check_version
from headrace.log.producers import State
from headrace.log.transactions import SavedTransactions
from headrace.log.writing import read_whole, replace_file
from headrace.ports import Files
from headrace.records.kernel import crc32c


class SegmentState(msgspec.Struct, frozen=True, array_like=True):
    base: int
    next_offset: int
    size: int
    max_timestamp: int
    created_ms: int
    revision: int = 0


class Snapshot(msgspec.Struct, frozen=True):
    generation: int
    start_offset: int
    next_offset: int
    segments: list[SegmentState]  # the last one may have grown since, and others may have followed it
    epochs: list[tuple[int, int]]
    producers: list[tuple[int, State]]
    cutting: bool = False  # a truncation to this state was begun: bytes beyond it are to go
    transactions: SavedTransactions | None = None
    cleaned_offset: int = 0  # all before it was compacted
    horizon_ms: int = -1  # by then all tombstones that compaction has met may go; -1: it met none


def encode_snapshot(snapshot: Snapshot) -> bytes:
    body = msgspec.msgpack.encode(snapshot)
    return SNAPSHOT_HEADER.pack(SNAPSHOT_MAGIC, VERSION, 0, len(body), crc32c(body)) + body


def decode_snapshot(data: bytes, path: str) -> Snapshot | None:
    if len(data) < SNAPSHOT_HEADER.size:
        return None
    magic, version, _flags, size, crc = SNAPSHOT_HEADER.unpack_from(data)
    body = data[SNAPSHOT_HEADER.size :]
    if magic != SNAPSHOT_MAGIC or len(body) != size or crc32c(body) != crc:
        return None
    check_version(version, path)
    try:
        return msgspec.msgpack.decode(body, type=Snapshot)
    except msgspec.MsgspecError:
        return None


def load_snapshot(files: Files, folder: str) -> Snapshot | None:
    """None: there is none, or its bytes are not one. OSError when the disk does not give it."""
    path = f"{folder}/{SNAPSHOT}"
    try:
        data = read_whole(files, path)
    except FileNotFoundError:
        return None
    return decode_snapshot(data, path)


def save_snapshot(files: Files, folder: str, data: bytes) -> None:
    replace_file(files, f"{folder}/{SNAPSHOT}", data, durable=True)
