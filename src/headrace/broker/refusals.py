"""Why a partition does not take a producer's batch, in the words and by the error that tell a client whether to try
again."""

from __future__ import annotations

from headrace.broker.config import TopicConfig
from headrace.errors import CorruptBatch, InvalidRecord, InvalidTimestamp, UnsupportedMagic
from headrace.ports import Buffer
from headrace.records.batch import HEADER_BYTES, BatchHeader, read_header
from headrace.records.header import CONTROL, CRC_FROM, LOG_APPEND_TIME
from headrace.records.kernel import crc32c

OURS = CONTROL | LOG_APPEND_TIME  # what no producer sets


def refuse_undamaged(batch: Buffer, error: CorruptBatch) -> None:
    """What came as it was sent is not damage, which a client would send again."""
    if not len(batch):
        raise InvalidRecord("a producer sends a batch for each partition that it names")
    if len(batch) < HEADER_BYTES or isinstance(error, UnsupportedMagic):
        return
    header = read_header(batch)
    if HEADER_BYTES <= header.size < len(batch):
        raise InvalidRecord("a producer sends exactly one batch for a partition")
    if header.size == len(batch) and header.crc == crc32c(memoryview(batch)[CRC_FROM:]):
        raise InvalidRecord(str(error))


def refuse_ours(attributes: int) -> None:
    if attributes & CONTROL:
        raise InvalidRecord("control batches are the broker's to write")
    raise InvalidTimestamp("LogAppendTime is the broker's to set: a producer says when its records were made")


def refuse_timestamp(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    raise InvalidTimestamp(
        f"timestamps {header.base_timestamp} to {header.max_timestamp} are outside of what is taken at {now_ms}: "
        f"{config.timestamp_before_max_ms} ms before, {config.timestamp_after_max_ms} ms after"
    )
