"""A producer's batch without some of its records: what it takes to leave out those whose ids are known.

Places stay as they were: each record that is left keeps its offset within the batch, and the batch its last offset and
its producer's sequence, as in a compacted log. So the next batch of an idempotent producer still follows.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.ports import Buffer
from headrace.records import codec, compression, kernel
from headrace.records.batch import HEADER_BYTES, PREFIX_BYTES, BatchHeader
from headrace.records.header import COMPRESSION_MASK, CRC, CRC_AT, CRC_FROM, HEADER
from headrace.records.record import Record


def without(batch: Buffer, header: BatchHeader, records: Sequence[Record], left: Sequence[bool]) -> bytearray:
    """The batch with those `records` of it, all of them in order, that are to be left."""
    from headrace.records.twin import varint  # late: all the twins come with it

    body = bytes(codec.records_bytes(header, memoryview(batch)[HEADER_BYTES:]))
    kept = bytearray()
    at, end = 0, len(body)
    for is_left in left:
        length, start = varint.read(body, at, end)
        if is_left:
            kept += body[at : start + length]
        at = start + length
    times = [record.timestamp_ms for record, is_left in zip(records, left, strict=True) if is_left]
    attributes = header.attributes if times else header.attributes & ~COMPRESSION_MASK
    made = bytearray(HEADER_BYTES)
    made += compression.compress(header.compression, kept) if attributes & COMPRESSION_MASK else kept
    fields = header._replace(
        length=len(made) - PREFIX_BYTES,
        attributes=attributes,
        max_timestamp=max(times) if times and not header.is_log_append_time else header.max_timestamp,
        record_count=len(times),
    )
    HEADER.pack_into(made, 0, *fields)
    with memoryview(made) as view:
        CRC.pack_into(made, CRC_AT, kernel.crc32c(view[CRC_FROM:]))
    return made
