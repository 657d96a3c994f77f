"""Records to batches that the topic takes: the same rules as for a producer's batch, applied to each record.

What the topic's `max.message.bytes` limits is a batch. A record by itself is measured by its content, key, value and
headers: who publishes single messages knows nothing of batches, and a message of exactly the limit goes through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.broker.topic import Topic
from headrace.errors import HeadraceError, InvalidRecord, InvalidTimestamp, MessageTooLarge
from headrace.records.header import MAX_BATCH_BYTES
from headrace.records.record import Record

RECORD_BYTES = 40  # what frames a record, at most: its lengths, deltas and count
HEADER_BYTES = 10  # what frames a header, at most
BATCH_BYTES = 61  # what frames a batch


def refusal(record: Record, topic: Topic, now_ms: int) -> HeadraceError | None:
    """Why the topic does not take the record."""
    config = topic.config
    content, size = sizes(record)
    try:
        "".join(name for name, _ in record.headers).encode()
    except UnicodeEncodeError:
        return InvalidRecord("a header's name is text, and this one holds half a character")
    if content > config.max_message_bytes:
        return MessageTooLarge(f"{content} bytes are over the topic's max.message.bytes={config.max_message_bytes}")
    if size + BATCH_BYTES > MAX_BATCH_BYTES:
        return MessageTooLarge(f"{content} bytes do not fit a batch of {MAX_BATCH_BYTES}")
    if topic.is_compacted and record.key is None:
        return InvalidRecord("every record of a compacted topic has a key")
    if not topic.is_log_append_time:
        early, late = config.timestamp_before_max_ms, config.timestamp_after_max_ms
        if not now_ms - early <= record.timestamp_ms <= now_ms + late:
            return InvalidTimestamp(
                f"timestamp {record.timestamp_ms} is outside of what is taken at {now_ms}: "
                f"{early} ms before, {late} ms after"
            )
    return None


def sizes(record: Record) -> tuple[int, int]:
    """Bytes of its content, and at most in a batch."""
    content = len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        content += len(name.encode("utf-8", "surrogatepass")) + len(value or b"")
    return content, content + RECORD_BYTES + HEADER_BYTES * len(record.headers)


def split(records: Sequence[Record], limit_bytes: int) -> Iterator[tuple[int, int]]:
    """Stretches, as first and after the last, each of which fits a batch of that size, or is one record."""
    first, total = 0, BATCH_BYTES
    for place, record in enumerate(records):
        size = sizes(record)[1]
        if total + size > limit_bytes and place > first:
            yield first, place
            first, total = place, BATCH_BYTES
        total += size
    if first < len(records):
        yield first, len(records)
