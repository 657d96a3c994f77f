"""A pipeline's rows from beginning to end: what is read, each step, what is written. Nothing runs until `start`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from pyspark.errors import ParseException
from pyspark.sql import functions as sf

from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines import late, steps, waits
from headrace.spark.pipelines.archive import BAD, DATE, GOOD, ArchiveWriter
from headrace.spark.pipelines.beginnings import has_date_of_archive, rows_of
from headrace.spark.pipelines.decoding import HEADERS, RAW, REASON, RECORD
from headrace.spark.pipelines.ends import are_records, as_json, bad_records, came_as_records, make_topics, records_of
from headrace.spark.pipelines.evolution import check_columns
from headrace.spark.pipelines.quoting import quoted, spelt_out
from headrace.spark.pipelines.settings import (
    AVAILABLE_NOW,
    ELSEWHERE,
    Archive,
    Deadletter,
    Dedup,
    Order,
    Replay,
    Rollup,
    Settings,
    Source,
)
from headrace.spark.pipelines.store import Store
from headrace.spark.pipelines.times import interval

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ANSI: Final = "spark.sql.ansi.enabled"
PLACES: Final = (("_topic", "_partition", "_offset"), ("topic", "partition", "offset"))
PACE_S: Final = 0.1  # a paced stream waits in steps of about this length


def start(spark: SparkSession, settings: Settings) -> StreamingQuery:
    writer = _writer(spark, settings).queryName(settings.name).option("checkpointLocation", settings.checkpoint)
    make_topics(settings)
    if settings.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=interval(settings.trigger)).start()


def placed(spark: SparkSession, settings: Settings) -> Settings:
    """With whole paths: Java may have been started elsewhere. Not where paths mean another file system than this
    machine's."""
    if not spark._jsc.hadoopConfiguration().get("fs.defaultFS", "file:").startswith("file:"):
        return settings
    begin, end = settings.beginning, settings.end
    if isinstance(begin, Replay) and begin.path:
        begin = replace(begin, path=_whole(begin.path))
    if isinstance(end, Archive):
        end = replace(end, path=_whole(end.path))
    return replace(settings, beginning=begin, end=end, folder=str(settings.home.absolute()))


def _whole(path: str) -> str:
    return path if ELSEWHERE.match(path) else str(Path(path).absolute())


def _writer(spark: SparkSession, settings: Settings) -> DataStreamWriter:
    good, bad = frames(spark, settings)
    end, aside = settings.end, settings.deadletter
    if isinstance(end, Archive):
        if DATE in good.columns and isinstance(settings.beginning, Source):
            raise InvalidOption(f"[archive] {DATE!r} is the archive's own column: the rows' needs another name")
        steps.time_column(good, end.time, "[archive]")
        if end.format == "parquet":  # Delta's log lets several write
            Store(spark, end.path).claim(settings.name)
        check_columns(spark, end, good.schema)
        envelope = good.select(sf.struct(*map(quoted, good.columns)).alias(GOOD))
        if bad is not None:
            envelope = envelope.unionByName(bad.select(sf.struct(*bad.columns).alias(BAD)), allowMissingColumns=True)
        writer = ArchiveWriter(end, settings, aside)
        return envelope.writeStream.outputMode("append").foreachBatch(writer.write)
    is_rolled_up = any(isinstance(step, Rollup) for step in settings.steps)  # then no column is the archive's any more
    left_out = (DATE,) if not is_rolled_up and has_date_of_archive(spark, settings.beginning) else ()
    records = records_of(good, end, as_they_came=are_records(good, settings), left_out=left_out)
    if bad is not None:
        records = records.unionByName(bad)
    return records.writeStream.outputMode("append").format("headrace").option("servers", settings.servers)


def frames(spark: SparkSession, settings: Settings) -> tuple[DataFrame, DataFrame | None]:
    """The rows that go to the end, and, as records, those that are set aside."""
    rows, bad = rows_of(spark, settings), None
    aside, timeless = settings.deadletter, _timeless(rows, settings)
    if aside is not None:
        rows = judged(_with_record(rows, settings), aside, timeless)
        bad = bad_records(rows.where(sf.col(REASON).isNotNull()), aside)
        rows = rows.where(sf.col(REASON).isNull()).drop(REASON, RAW, HEADERS)
    else:
        for column, why in timeless.items():
            rows = rows.withColumn(column, sf.coalesce(quoted(column), _stopped(rows, sf.lit(why)).cast("timestamp")))
        if REASON in rows.columns:
            is_good = sf.col(REASON).isNull() | _stopped(rows, sf.col(REASON)).cast("boolean")
            rows = rows.where(is_good).drop(REASON, RAW)
    rows = _watermarked(rows, settings)
    for step in settings.steps:
        if isinstance(step, Rollup):
            rows = late.observed(rows, steps.time_column(rows, step.time, "[rollup]"), step)
        rows = rows.transform(_step(step)) if not isinstance(step, Deadletter) else rows
    if isinstance(settings.beginning, Replay) and settings.beginning.rate:
        rows = paced(rows, settings.beginning.rate)
    return rows, bad


def _timeless(rows: DataFrame, settings: Settings) -> dict[str, str]:
    """The columns that steps go by as the time of a row, and what is said of a row that has none. Windows leave such
    rows out, and duplicates among them are not known again: they are as rows that do not decode."""
    found: dict[str, str] = {}
    for step in settings.steps:
        if not isinstance(step, Deadletter):
            section = f"[{type(step).__name__.lower()}]"
            if step.time:
                column = steps.time_column(rows, step.time, section)
                found.setdefault(column, f"{column} is null, and {section} goes by it")
            if isinstance(step, Rollup):
                break
    return found


def _watermarked(rows: DataFrame, settings: Settings) -> DataFrame:
    """Steps that go by the same time share its watermark (waits.py); one that goes by a time alone sets it itself."""

    def column(step: waits.Waiting) -> str:
        return step.time or steps.time_column(rows, "", f"[{type(step).__name__.lower()}]")

    for name, (longest, *_) in waits.sharing(settings, column).items():
        column_name = quoted(steps.time_column(rows, name, "[steps]"))
        rows = rows.withWatermark(column_name, interval(waits.wait_of(longest)))
    return rows


def _step(step: Dedup | Order | Rollup) -> steps.Step:
    match step:
        case Dedup():
            return steps.dedup(by=step.by, time=step.time, within=step.within)
        case Order():
            return steps.order(time=step.time, late=step.late, by=step.by)
        case Rollup():
            return steps.rollup(
                window=step.window, values=step.values, time=step.time, slide=step.slide, late=step.late, by=step.by
            )


def _with_record(rows: DataFrame, settings: Settings) -> DataFrame:
    """With what goes aside of a row that is bad: its record. A row of files that is none goes as JSON; if it was one
    before it was archived, it has kept where that was."""
    if REASON in rows.columns:
        return rows
    if came_as_records(rows, settings):
        own = [name for name in (*RECORD, "value", "headers") if name in rows.columns]
        return rows.withColumns({f"_{name}": sf.col(name) for name in own})
    left_out = (DATE,) if has_date_of_archive(rows.sparkSession, settings.beginning) else ()
    return rows.withColumn(RAW, as_json(rows, left_out))


def judged(rows: DataFrame, aside: Deadletter, timeless: Mapping[str, str]) -> DataFrame:
    """With a reason for each bad row: it does not decode, or a check says no, or does not know, or cannot be computed
    from this row (the stream goes on), or it has no time."""
    why = sf.col(REASON) if REASON in rows.columns else sf.lit(None).cast("string")
    for reason, condition in aside.checks.items():
        try:
            fulfilled = sf.coalesce(sf.expr(condition), sf.lit(False))
        except ParseException as error:
            said = str(error).strip().splitlines()[0]
            raise InvalidOption(f"[deadletter] checks: {condition!r} is no condition: {said}") from None
        why = sf.when(why.isNotNull(), why).when(~fulfilled, sf.lit(reason))
    for column, reason in timeless.items():
        why = sf.when(why.isNotNull(), why).when(sf.col(quoted(column)).isNull(), sf.lit(reason))
    with _no_errors(rows.sparkSession):
        return rows.withColumn(REASON, why)


@contextmanager
def _no_errors(spark: SparkSession) -> Iterator[None]:
    """Expressions that Spark resolves meanwhile have null where they would raise (ANSI): a cast of what is no number, a
    division by zero. They stay so, whatever the session says later."""
    before = spark.conf.get(ANSI) or "true"
    spark.conf.set(ANSI, "false")
    try:
        yield
    finally:
        spark.conf.set(ANSI, before)


def _stopped(rows: DataFrame, why: Column) -> Column:
    """Ends the query where it is computed: in the condition of a row, or in the column that the row lacks."""
    place = next((names for names in PLACES if set(names) <= set(rows.columns)), ())
    where = ", in topic %s partition %d offset %d" if place else ""
    return sf.raise_error(sf.format_string(f"%s{where}; [deadletter] sets such rows aside", why, *map(sf.col, place)))


def paced(rows: DataFrame, rate: float) -> DataFrame:
    """So many rows a second, over all, in their order: by one task that waits."""
    plain = rows.toDF(*map(spelt_out, rows.columns))

    def wait(tables: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        began, done = time.monotonic(), 0
        size = max(1, int(rate * PACE_S))
        for table in tables:
            for at in range(0, table.num_rows, size):
                part = table.slice(at, size)
                yield part
                done += part.num_rows
                time.sleep(max(0.0, began + done / rate - time.monotonic()))

    return plain.coalesce(1).mapInArrow(wait, plain.schema).toDF(*rows.columns)
