"""A topic's records to a writer: partition by partition, in the order of offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import msgspec

from headrace.cli import topics
from headrace.cli.exchange.commas import CsvWriter
from headrace.cli.exchange.jsonl import JsonlWriter
from headrace.cli.exchange.parquet import ParquetWriter
from headrace.cli.exchange.places import Format, written
from headrace.cli.exchange.rows import Writer
from headrace.cli.exits import not_found
from headrace.cli.parsing import Position
from headrace.cli.progress import Advance, progress
from headrace.errors import RequestTimedOut

if TYPE_CHECKING:
    from headrace.aio import Client, Consumer

TAKE_RECORDS = 1000
TAKE_TIMEOUT_S = 30.0
PREFETCH_BYTES = 8 << 20  # writing is slower than reading, so more would only wait in memory


class Range(msgspec.Struct, frozen=True):
    start: Position
    end: Position
    partitions: list[int] | None
    """None: all of them."""


async def export_topic(client: Client, topic: str, file: str, form: Format, wanted: Range) -> int:
    """How many records went to the file."""
    found = await topics.one(client, topic)
    known = [partition.index for partition in found.partitions]
    chosen = known if wanted.partitions is None else wanted.partitions
    if strange := sorted(set(chosen) - set(known)):
        raise not_found(f"topic {topic} has no partition {strange[0]}", f"it has {len(known)}: 0 to {len(known) - 1}")
    first, last = await _offsets(client, topic, "start"), await _offsets(client, topic, "end")
    total = sum(max(0, last[one] - first[one]) for one in chosen)
    count = 0
    with written(file, form) as out, progress("exporting", total) as advance:
        writer = _writer(form, out, topic)
        for partition in chosen:
            async with client.consumer(
                topic,
                partitions=[partition],
                start=wanted.start,
                end=wanted.end,
                follow=False,
                isolation="read_committed",
                prefetch_bytes=PREFETCH_BYTES,
            ) as consumer:
                count += await _copy(consumer, writer, advance)
        writer.finish()
    return count


async def _copy(consumer: Consumer, writer: Writer, advance: Advance) -> int:
    count = 0
    while not consumer.is_done:
        records = await consumer.take(max_records=TAKE_RECORDS, timeout=TAKE_TIMEOUT_S)
        if not records and not consumer.is_done:  # half an export must not look like a whole one
            raise RequestTimedOut(f"no records came for {TAKE_TIMEOUT_S:g} s, after {count} of them")
        writer.write(records)
        count += len(records)
        advance(len(records))
    return count


async def _offsets(client: Client, topic: str, at: str) -> dict[int, int]:
    return {partition: found.offset for partition, found in (await client.admin.offsets(topic, at)).items()}


def _writer(form: Format, out: BinaryIO, topic: str) -> Writer:
    if form == "parquet":
        return ParquetWriter(out, topic)
    return CsvWriter(out, topic) if form == "csv" else JsonlWriter(out, topic)
