"""Records to batches and back: the whole way, header, checksum and compression included.

`encode` gives a bytearray, so that the log may assign its offsets in place without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.errors import CorruptBatch, MessageTooLarge
from headrace.ports import Buffer
from headrace.records import compression as compressions
from headrace.records import kernel
from headrace.records.header import (
    CONTROL,
    CRC,
    CRC_AT,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_BATCH_BYTES,
    MAX_SEQUENCE,
    PREFIX_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
)
from headrace.records.record import Record

__all__ = [
    "NO_PRODUCER",
    "PLAIN",
    "BatchOptions",
    "Producer",
    "Record",
    "decode",
    "encode",
    "records_bytes",
    "seal",
    "split",
    "survey",
]

NO_EPOCH = -1


class Survey(NamedTuple):
    """Of the records from an offset on, (offset, time) of the first that is not older than a time, and the largest
    time; of all, how many have no key."""

    first: tuple[int, int] | None
    largest_ms: int | None
    keyless: int


class Producer(NamedTuple):
    """Who wrote a batch, for idempotence: the sequence is that of the batch's first record."""

    id: int = -1
    epoch: int = -1
    sequence: int = -1


NO_PRODUCER = Producer()


class BatchOptions(NamedTuple):
    """All that a batch says besides its records."""

    base_offset: int = 0
    compression: str = "none"
    leader_epoch: int = NO_EPOCH
    producer: Producer = NO_PRODUCER
    is_transactional: bool = False
    is_control: bool = False
    append_time_ms: int | None = None  # LogAppendTime: the one timestamp of all records

    @property
    def attributes(self) -> int:
        return (
            compressions.number(self.compression)
            | (LOG_APPEND_TIME if self.append_time_ms is not None else 0)
            | (TRANSACTIONAL if self.is_transactional else 0)
            | (CONTROL if self.is_control else 0)
        )

    def after(self, count: int) -> BatchOptions:
        """The same for the batch that follows one of `count` records."""
        producer = self.producer
        if producer.sequence >= 0:
            producer = producer._replace(sequence=(producer.sequence + count) & MAX_SEQUENCE)
        return self._replace(base_offset=self.base_offset + count, producer=producer)


PLAIN = BatchOptions()


def encode(records: Sequence[Record], options: BatchOptions = PLAIN) -> bytearray:
    """One batch of all the records, with offsets from the base offset on."""
    if not records:
        raise ValueError("a batch has at least one record")
    batch, base_timestamp, max_timestamp = kernel.encode_records(records)
    return seal(batch, len(records), base_timestamp, max_timestamp, options)


def seal(batch: bytearray, count: int, base_timestamp: int, max_timestamp: int, options: BatchOptions) -> bytearray:
    """Makes a batch of HEADER_BYTES of room and the records' bytes behind it."""
    attributes = options.attributes
    if options.compression != "none":
        with memoryview(batch) as view:
            body = compressions.compress(compressions.number(options.compression), view[HEADER_BYTES:])
        batch = bytearray(HEADER_BYTES)
        batch += body
    if len(batch) > MAX_BATCH_BYTES:
        raise MessageTooLarge(f"a batch of {len(batch)} bytes is over the limit of {MAX_BATCH_BYTES}")
    if options.append_time_ms is not None:
        max_timestamp = options.append_time_ms
    fields = BatchHeader(
        options.base_offset,
        len(batch) - PREFIX_BYTES,
        options.leader_epoch,
        MAGIC,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        options.producer.id,
        options.producer.epoch,
        options.producer.sequence,
        count,
    )
    HEADER.pack_into(batch, 0, *fields)
    with memoryview(batch) as view:
        CRC.pack_into(batch, CRC_AT, kernel.crc32c(view[CRC_FROM:]))
    return batch


def split(buffer: Buffer, *, check_crc: bool = True) -> list[tuple[BatchHeader, memoryview]]:
    """The batches in `buffer`, each with its records' bytes as they stand; anything else is CorruptBatch."""
    view = memoryview(buffer)
    found, at, why = kernel.scan(view, 0, len(view), -1, check_crc)
    if why is not None:
        raise CorruptBatch(f"at byte {at}: {'the batch is cut off' if why == 'short' else why}")
    return [
        (read_header(view, position), view[position + HEADER_BYTES : position + size]) for position, size, *_ in found
    ]


def records_bytes(header: BatchHeader, body: Buffer, limit_bytes: int | None = None) -> Buffer:
    """A batch's records without compression, unfolded to the limit at most."""
    return compressions.decompress(header.compression, body, limit_bytes or compressions.MAX_DECOMPRESSED_BYTES)


def decode(
    buffer: Buffer, *, control: bool = False, check_crc: bool = True, limit_bytes: int | None = None
) -> list[Record]:
    """All records of the batches in `buffer`; those of control batches only on request."""
    records: list[Record] = []
    for header, body in split(buffer, check_crc=check_crc):
        if control or not header.is_control:
            records += kernel.decode_records(*_run(header, body, limit_bytes))
    return records


def survey(batch: Buffer, from_offset: int = 0, timestamp_ms: int = 0, *, limit_bytes: int | None = None) -> Survey:
    """What is asked of one batch's records, control records too, without making any: a few bytes may unfold to
    millions. Its checksum is not looked at."""
    ((header, body),) = split(batch, check_crc=False)
    return Survey(*kernel.survey(*_run(header, body, limit_bytes), from_offset, timestamp_ms))


def _run(header: BatchHeader, body: Buffer, limit_bytes: int | None) -> tuple[Buffer, int, int, int, int | None]:
    """As the kernels take the records of a batch."""
    return (
        records_bytes(header, body, limit_bytes),
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if header.is_log_append_time else None,
    )
