"""All that the log writes besides batches: names of files and the layout of their bytes. docs/log-format.md
explains it.

Numbers are big-endian. Every structure carries a CRC32C and says its version: a higher version than ours is
FormatTooNew and nothing is touched; a wrong checksum is damage, and what that means depends on the file, so
here it is only None.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from headrace.errors import FormatTooNew, FormatTooOld
from headrace.ports import Buffer
from headrace.records.kernel import crc32c

VERSION = 1
OLDEST = 1  # the oldest that is still read

SEGMENT_MAGIC = b"HEADRACE"
SEGMENT_HEADER_BYTES = 256
LOG_ID_BYTES = 20  # topic id (16), partition (4)
# magic, version, flags, base offset, created ms, log id; then room for encryption: key id, wrapped data key,
# nonce prefix; then, of a compacted segment: revision, bytes of the file, next offset
_SEGMENT = struct.Struct(f">8sHHqq{LOG_ID_BYTES}s16s64s16sIIq")
_CRC = struct.Struct(">I")
_PLAIN = (bytes(16), bytes(64), bytes(16))  # all zero: not encrypted
COMPACTED = 1  # flag of a segment: made by compaction, so that offsets have gaps, and complete from the start

INDEX_MAGIC = b"HRINDEX\x00"
# magic, version, flags, base offset, bytes of the segment that are covered, count; then the columns, then the
# CRC
INDEX_HEADER = struct.Struct(">8sHHqII")

SNAPSHOT_MAGIC = b"HRSNAPS\x00"
SNAPSHOT_HEADER = struct.Struct(
    ">8sHHII"
)  # magic, version, flags, bytes of the body, its CRC; then the body, MessagePack

JOURNAL_MAGIC = b"HRSYNCED"
JOURNAL_HEADER = struct.Struct(">8sHH32xI")  # as long as a mark
_MARK = struct.Struct(f">{LOG_ID_BYTES}sIqIq")  # log id, generation, segment base, position, next offset; then the CRC
MARK_BYTES = _MARK.size + _CRC.size
GONE = 0xFFFFFFFF  # the generation of a log that was deleted

LOG, INDEX, DAMAGE = ".log", ".index", ".damage"
CLOCK = ".clock"  # reserved for the clock's side index
SIDE_FILES = (INDEX, DAMAGE, CLOCK)  # what goes when the segment goes
DELETED = ".deleted"  # a segment or folder on its way out; what it held is no longer part of the log
STALE = ".stale"  # a segment that fits nowhere, kept for whoever wants to look
NEW = ".new"  # being written; takes its name when it is whole
SNAPSHOT = "snapshot"
RESTORING = "restoring"  # in a data directory that a backup is being brought back to


class SegmentHeader(NamedTuple):
    base_offset: int
    created_ms: int
    log_id: bytes
    revision: int = 0  # how often its records were compacted; with 0 the other two say nothing
    size: int = 0
    next_offset: int = 0


class Mark(NamedTuple):
    """Proof that all bytes of a log below this point were synced."""

    log_id: bytes
    generation: int  # counts truncations: a mark from before one proves nothing about what came after
    segment: int
    position: int
    next_offset: int


def segment_name(base_offset: int, ending: str = LOG, revision: int = 0) -> str:
    return f"{base_offset:020d}.{revision}{ending}" if revision else f"{base_offset:020d}{ending}"


def segments_of(names: Iterable[str], ending: str) -> list[tuple[int, int]]:
    """(base offset, revision) of all files with that ending, sorted."""
    stems = [name[: -len(ending)].partition(".") for name in names if name.endswith(ending)]
    return sorted((int(base), int(revision or 0)) for base, _, revision in stems if (base + revision).isdigit())


def encode_segment_header(header: SegmentHeader) -> bytes:
    flags = COMPACTED if header.revision else 0
    made = (header.revision, header.size, header.next_offset)
    body = _SEGMENT.pack(
        SEGMENT_MAGIC, VERSION, flags, header.base_offset, header.created_ms, header.log_id, *_PLAIN, *made
    ).ljust(SEGMENT_HEADER_BYTES - _CRC.size, b"\x00")
    return body + _CRC.pack(crc32c(body))


def decode_segment_header(data: Buffer, path: str) -> SegmentHeader | None:
    """None when these are not the bytes of a header."""
    if len(data) < SEGMENT_HEADER_BYTES:
        return None
    at = SEGMENT_HEADER_BYTES - _CRC.size
    if crc32c(memoryview(data)[:at]) != _CRC.unpack_from(data, at)[0]:
        return None
    magic, version, flags, base, created_ms, log_id, *locks, revision, size, next_offset = _SEGMENT.unpack_from(data)
    if magic != SEGMENT_MAGIC:
        return None
    check_version(version, path)
    if flags & ~COMPACTED or tuple(locks) != _PLAIN:  # what it holds would be taken for a torn tail, and cut
        what = f"has flags ({flags:#x}) that this program does not know" if flags & ~COMPACTED else "is encrypted"
        raise FormatTooNew(f"{path} {what}: run the version that wrote it, or a newer one")
    if not flags & COMPACTED:
        return SegmentHeader(base, created_ms, log_id)
    return SegmentHeader(base, created_ms, log_id, revision, size, next_offset)


def encode_mark(mark: Mark) -> bytes:
    body = _MARK.pack(*mark)
    return body + _CRC.pack(crc32c(body))


def decode_mark(data: memoryview, at: int) -> Mark | None:
    end = at + _MARK.size
    if _CRC.unpack_from(data, end)[0] != crc32c(data[at:end]):
        return None
    return Mark(*_MARK.unpack_from(data, at))


def check_version(version: int, path: str) -> None:
    if version > VERSION:
        raise FormatTooNew(
            f"{path} has format {version}, and this program reads up to {VERSION}:"
            " run the version that wrote it, or a newer one"
        )
    if version < OLDEST:
        raise FormatTooOld(
            f"{path} has format {version}, and this program reads from {OLDEST} on: run the version that wrote it"
        )
