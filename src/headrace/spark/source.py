"""The data source that Spark knows as `headrace`: batch and stream, in and out.

Spark makes one in whatever process it needs it, and pickles it from there to the next, so it holds its options and
nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from headrace.errors import HeadraceError
from headrace.spark import NAME, loss
from headrace.spark.errors import InvalidOption
from headrace.spark.options import EARLIEST, LATEST, Bound, SourceOptions, source_options, starts_late
from headrace.spark.plain import plain
from headrace.spark.planning import Range, tasks
from headrace.spark.process import spare_imports
from headrace.spark.schema import check, spark_schema
from headrace.spark.sink_options import SinkOptions, sink_options

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.client.values import TopicPartition
    from headrace.spark.sink import BatchWriter, StreamWriter
    from headrace.spark.stream import Refused, StreamReader


@plain
class HeadraceSource(DataSource):
    """Topics of Headrace, or of any broker that speaks Kafka's protocol."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)
        spare_imports()

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        options = self._options(is_stream=None)
        found = spark_schema(options.with_headers)
        if options.value_format is None:
            return found
        from headrace.spark.values import BESIDE, value_type

        fields = [StructField("value", value_type(options)) if one.name == "value" else one for one in found.fields]
        return StructType([*fields, *BESIDE])

    def _options(self, *, is_stream: bool | None) -> SourceOptions:
        options = source_options(self._given, is_stream=is_stream)
        if options.value_schema is None:
            return options
        from headrace.spark.values import loaded

        return replace(options, value_schema=loaded(options.value_schema, options.value_format))

    def reader(self, schema: StructType) -> BatchReader:
        options = self._options(is_stream=False)
        _check(schema, options)
        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> StreamReader | Refused:  # noqa: N802 (Spark's name)
        from headrace.spark.stream import Refused, StreamReader

        try:
            options = self._options(is_stream=True)
            _check(schema, options)
        except HeadraceError as error:
            return Refused(error)
        spare_imports()
        return StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from headrace.spark.rows import check as check_rows
        from headrace.spark.sink import BatchWriter

        options = self._sink_options(overwrite, is_stream=False)
        check_rows(schema, options)
        return BatchWriter(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        from headrace.spark.rows import check as check_rows
        from headrace.spark.sink import StreamWriter

        options = self._sink_options(overwrite, is_stream=True)
        check_rows(schema, options)
        return StreamWriter(options, schema)

    def _sink_options(self, overwrite: bool, *, is_stream: bool) -> SinkOptions:
        if overwrite:
            raise InvalidOption('a topic can only be added to: use .mode("append"), or outputMode("append")')
        from headrace.spark.values import loaded

        options = sink_options(self._given, is_stream=is_stream)
        return replace(options, row_schema=loaded(options.row_schema, options.row_format))


def _check(schema: StructType, options: SourceOptions) -> None:
    check(schema, is_decoded=options.value_format is not None)
    if options.value_format is not None:
        from headrace.spark.values import check as check_values

        check_values(options, schema)


class Share(NamedTuple):
    """What one task reads."""

    ranges: list[Range]
    ids: Mapping[str, str]  # of its topics, when it was planned


@plain
class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options, self._schema = options, schema

    def partitions(self) -> Sequence[InputPartition]:
        from headrace.spark.lookup import Lookup

        options, lookup = self._options, Lookup(self._options)
        try:
            topics = lookup.topics()
            where = lookup.partitions(topics)
            starts = lookup.resolve(options.start or Bound(word=EARLIEST), where, is_start=True)
            ends = lookup.resolve(options.end or Bound(word=LATEST), where, is_start=False)
            first, last = lookup.starts(where), lookup.ends(where)
            written = lookup.written([one for one in where if max(starts[one], ends[one]) > last[one]])
        finally:
            lookup.close()
            spare_imports()
        ranges = [
            self._range(one, starts[one], ends[one], first[one], last[one], written.get(one, last[one]))
            for one in where
        ]
        planned = tasks(ranges, options.rows_per_task, options.min_partitions, options.max_records)
        # Spark gives a source without partitions one of its own making; it must read nothing.
        ids = {name: str(topic.topic_id) for name, topic in topics.items() if topic.topic_id}
        return [InputPartition(Share(one, ids)) for one in planned or [[]]]

    def _range(self, where: TopicPartition, start: int, end: int, first: int, last: int, written: int) -> Range:
        """What the log, which goes from `first` to `last`, has of it; says what it has not. Up to `written` there is
        more in it, which is not committed."""
        options = self._options
        begin = options.start if options.start is not None and options.start.names(*where) else None
        if begin is None:  # the earliest, which may be another one by now
            start = max(start, first)
        if start > end and options.end is not None and options.end.names(*where):
            if begin is not None:
                raise InvalidOption(starts_late(*where, start, end))
            start = 0  # the earliest, which all of it came before
        if start < min(first, end):
            loss.report(loss.gone_before(*where, start, min(first, end)), options.is_loss_fatal)
            start = first
        furthest = max(start, end) if begin is not None and begin.offsets is not None else end
        if last < furthest <= written:
            loss.report(loss.held_up(*where, furthest, last), options.is_loss_fatal, InvalidOption)
            end = last
        elif furthest > last:
            loss.report(loss.went_back(*where, furthest, last), options.is_loss_fatal)
            end = last
        return Range(*where, start, max(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from headrace.spark import reading

        return reading.read(self._options, self._schema, *partition.value)
