"""The 61 bytes in front of every batch (RecordBatch v2, big-endian).

    at  size  field                         at  size  field
     0     8  base offset                   27     8  base timestamp, ms
     8     4  length: bytes after this      35     8  max timestamp, ms
    12     4  leader epoch                  43     8  producer id, -1 = none
    16     1  magic, always 2               51     2  producer epoch
    17     4  CRC32C of all from 21 on      53     4  base sequence
    21     2  attributes                    57     4  record count
    23     4  last offset delta             61        records, maybe compressed

Base offset and leader epoch lie in front of what the CRC covers, so a broker assigns them and
touches nothing else.

`implausible` is what any batch must satisfy before one of its numbers is used as a size, whether a
producer, a disk or a peer gave us the bytes. It allows for what compaction leaves: gaps, and batches
without records. It says nothing of the base offset, which a producer may fill with anything: where offsets
count, the walk checks them.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from headrace.errors import CorruptBatch
from headrace.ports import Buffer

HEADER_BYTES = 61
PREFIX_BYTES = 12  # base offset and length: what must be read to know where the next batch starts
CRC_AT = 17
CRC_FROM = 21  # the checksum covers everything from here on
MAGIC = 2
MAGIC_AT = 16  # the same place in every format that Kafka ever had
MAX_BATCH_BYTES = 128 << 20  # over Kafka's own largest request (100 MiB): more is damage, not a batch
MAX_OFFSET = (1 << 63) - 1 - (1 << 32)  # leaves room for any delta, so that no sum overflows
MAX_SEQUENCE = (1 << 31) - 1  # sequences wrap to 0 after this one

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # the base timestamp says until when tombstones and markers of this batch stay
LAST_COMPRESSION = 4  # none, gzip, snappy, lz4, zstd

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC = struct.Struct(">I")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_NEW_TUPLE = tuple.__new__


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return PREFIX_BYTES + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def last_sequence(self) -> int:
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


def read_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """The header as it stands, nothing checked but that there are bytes enough."""
    if at < 0 or len(buffer) - at < HEADER_BYTES:
        room = max(0, len(buffer) - at)
        raise CorruptBatch(f"a batch needs {HEADER_BYTES} bytes of header, and there are {room}")
    return _NEW_TUPLE(BatchHeader, HEADER.unpack_from(buffer, at))


def implausible(header: BatchHeader) -> str | None:
    """Why these can not be the first bytes of a batch, in plain words; None when they can."""
    if header.magic != MAGIC:
        return f"magic {header.magic} where RecordBatch v2 has {MAGIC}"
    if header.length < HEADER_BYTES - PREFIX_BYTES:
        return f"a length of {header.length} bytes is less than the header itself"
    if header.length > MAX_BATCH_BYTES - PREFIX_BYTES:
        return f"a length of {header.length} bytes is over the limit of {MAX_BATCH_BYTES - PREFIX_BYTES}"
    if header.last_offset_delta < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
        return f"{header.record_count} records do not fit a last offset delta of {header.last_offset_delta}"
    return None


def assign(buffer: bytearray | memoryview, at: int, base_offset: int, leader_epoch: int) -> None:
    """Gives the batch its place in the log. The checksum stays true: it does not cover these fields."""
    _BASE_OFFSET.pack_into(buffer, at, base_offset)
    _LEADER_EPOCH.pack_into(buffer, at + PREFIX_BYTES, leader_epoch)


def reseal(header: BatchHeader, records: Buffer) -> bytearray:
    """The batch that has this header and these records: length and checksum are made anew."""
    from headrace.records.twin.checksum import crc32c  # late: what knows the fields needs no checksum

    batch = bytearray(HEADER_BYTES)
    batch += records
    header = header._replace(length=len(batch) - PREFIX_BYTES)
    HEADER.pack_into(batch, 0, *header)
    with memoryview(batch) as view:
        crc = crc32c(view[CRC_FROM:])
    HEADER.pack_into(batch, 0, *header._replace(crc=crc))
    return batch
