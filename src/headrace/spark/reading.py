"""What a task does: reads its ranges from the broker and hands Spark tables of about 64 k rows.

It runs in a worker, knows its ranges and the ids of their topics, and may run twice: the same ranges give the same
rows, since offsets say what is read. Batch and stream share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import headrace
from headrace.client.blocking import Client
from headrace.client.blocking_columns import ColumnReader
from headrace.client.columns import ROWS
from headrace.client.values import TopicPartition
from headrace.errors import OffsetOutOfRange, UnknownTopic
from headrace.spark import loss
from headrace.spark.lookup import CLIENT_ID
from headrace.spark.options import SourceOptions
from headrace.spark.planning import Range, rounds
from headrace.spark.process import keep_memory, spare_imports

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SMALL_ROWS: Final = ROWS // 4  # tables with fewer rows are gathered: Spark pays for each, and a copy costs little
GATHERED_BYTES: Final = 32 << 20  # of tables that are gathered: rows may be large, and a task's memory is not
QUIET_S: Final = 2.0  # without a table, after which the broker is asked whether the ranges are still in its logs
MAX_LOSSES: Final = 1000  # of one task's partitions, before it gives up going on without what is lost


def read(
    options: SourceOptions, schema: StructType, ranges: list[Range], ids: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """`ids` are those of the topics that the ranges were planned of."""
    from headrace.spark.schema import client_names
    from headrace.spark.tables import Shape, joined

    keep_memory()
    shape, names = Shape(schema, options), client_names(schema)
    with headrace.connect(options.servers, CLIENT_ID, options.timeout) as client:
        ranges = unchanged(client, ranges, ids, lambda words: loss.report(words, options.is_loss_fatal))
        gathered: list[pa.RecordBatch] = []
        rows = size = 0
        for table in _tables(client, options, ranges, names):
            gathered.append(table)
            rows, size = rows + table.num_rows, size + table.nbytes
            if rows >= SMALL_ROWS or size >= GATHERED_BYTES:
                yield shape.table(joined(gathered))
                gathered, rows, size = [], 0, 0
        if gathered:
            yield shape.table(joined(gathered))
    spare_imports()


def unchanged(
    client: Client, ranges: list[Range], ids: Mapping[str, str], report: Callable[[str], None]
) -> list[Range]:
    """Those of topics that are still the ones that were planned; says which are not."""
    there: dict[str, set[int]] = {}
    for name in sorted({one.topic for one in ranges}):
        try:
            topic = client.admin.topic(name)
        except UnknownTopic:
            report(loss.vanished(name))
            continue
        if topic.topic_id and ids.get(name, str(topic.topic_id)) != str(topic.topic_id):
            report(loss.made_anew(name))
            continue
        there[name] = {one.index for one in topic.partitions}
    found = []
    for one in ranges:
        if one.partition in there.get(one.topic, ()):
            found.append(one)
        elif one.topic in there:
            report(loss.vanished(one.topic, one.partition))
    return found


def _tables(client: Client, options: SourceOptions, ranges: list[Range], names: list[str]) -> Iterator[pa.RecordBatch]:
    for wanted in rounds(ranges):
        partitions: dict[str, list[int]] = {}
        for one in wanted:
            partitions.setdefault(one.topic, []).append(one.partition)
        with client.columns(
            *partitions,
            partitions=partitions,
            columns=names,
            start={TopicPartition(one.topic, one.partition): one.start for one in wanted},
            end={TopicPartition(one.topic, one.partition): one.end for one in wanted},
            follow=False,
            isolation=options.isolation,
            prefetch_bytes=options.prefetch_bytes,
        ) as reader:
            losses = 0
            while True:
                try:
                    table = reader.take(QUIET_S)
                except OffsetOutOfRange as error:
                    losses += 1
                    if losses > MAX_LOSSES:
                        raise
                    if not _pass_over(client, reader, options, wanted):
                        _go_on(reader, options, wanted, error)
                    continue
                if table is not None:
                    yield table
                elif all(reader.position(one.topic, one.partition) >= one.end for one in wanted):
                    break
                else:
                    _pass_over(client, reader, options, wanted)


def _pass_over(client: Client, reader: ColumnReader, options: SourceOptions, wanted: list[Range]) -> bool:
    """Something of the ranges may be gone: says what, and goes on behind it where that is wanted. Was there anything?

    A log that ends before its range would be waited for without end; what it still has is read first.
    """
    is_gone = False
    for topic, partition, _, end in wanted:
        at = reader.position(topic, partition)
        if at >= end:
            continue
        first = client.admin.offsets(topic, "start")[partition].offset
        last = client.admin.offsets(topic, "end")[partition].offset
        if at < first:
            loss.report(loss.gone_before(topic, partition, at, min(first, end)), options.is_loss_fatal)
            reader.seek(topic, partition, min(first, end))
        elif end > last and (options.is_loss_fatal or at >= last):
            loss.report(loss.went_back(topic, partition, end, last), options.is_loss_fatal)
            reader.seek(topic, partition, end)
        else:
            continue
        is_gone = True
    return is_gone


def _go_on(reader: ColumnReader, options: SourceOptions, wanted: list[Range], error: OffsetOutOfRange) -> None:
    """All of the ranges is there, though it was not: a log was cut and has grown again, by other records."""
    loss.report(error.cause, options.is_loss_fatal)
    for topic, partition, _, _ in wanted:
        if reader.position(topic, partition) == error.offset:
            reader.seek(topic, partition, error.offset)  # without asking whether what was before is what it was
