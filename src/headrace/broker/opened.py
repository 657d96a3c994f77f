"""Batches that are opened on the loop, because their topic looks at what is in them: at keys where it is compacted, at
ids where it has a window. A few bytes may claim millions of records, so what opening one may cost is bounded; a client
that sends more in one batch is told to send less, and Java's does."""

from __future__ import annotations

from typing import Final

from headrace.errors import CorruptBatch, DecompressionLimit, InvalidRecord, MessageTooLarge
from headrace.ports import Buffer
from headrace.records import codec
from headrace.records.header import BatchHeader
from headrace.records.record import Record

OPENED_RECORDS: Final = 1 << 17  # more than a megabyte holds without compression; some hundred milliseconds at worst
OPENED_BYTES: Final = 32 << 20  # without compression: some ten milliseconds


def refuse_keyless(batch: Buffer, header: BatchHeader) -> None:
    _check_count(header)
    try:
        keyless = codec.survey(batch, limit_bytes=OPENED_BYTES).keyless
    except CorruptBatch as error:
        raise _unreadable(error) from None
    if keyless:
        raise InvalidRecord("every record of a compacted topic has a key")


def records(batch: Buffer, header: BatchHeader) -> list[Record]:
    _check_count(header)
    try:
        return codec.decode(batch, check_crc=False, limit_bytes=OPENED_BYTES)
    except CorruptBatch as error:
        raise _unreadable(error) from None


def _check_count(header: BatchHeader) -> None:
    if header.record_count > OPENED_RECORDS:
        raise MessageTooLarge(
            f"{header.record_count} records are over the {OPENED_RECORDS} that a batch may have where the topic looks"
            " at keys or ids"
        )


def _unreadable(error: CorruptBatch) -> InvalidRecord | MessageTooLarge:
    words = "a batch for a topic that looks at keys or ids has to be readable"
    if isinstance(error, DecompressionLimit):
        return MessageTooLarge(f"{words}: {error}")
    return InvalidRecord(f"{words}: {error}")
