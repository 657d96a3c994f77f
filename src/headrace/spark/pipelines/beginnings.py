"""Where a pipeline's rows come from, decoded: topics, or what was archived before.

Decoded rows have the columns of their schema, and those of the record under names that begin with `_`. A row that does
not decode has a `_reason` (decoding.py): nothing is lost in silence.

A replay comes in micro-batches of a few seconds each: one is a transaction, done wholly or again, and what is asked to
stop finishes it first. Of an archive the least is a file, which is as far as Spark's sources of files can tell where
they are: so many at a time as have about that many rows, and a warning where one alone takes long.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from headrace.spark.pipelines.archive import DATE
from headrace.spark.pipelines.decoding import decoded, told
from headrace.spark.pipelines.quoting import quoted
from headrace.spark.pipelines.replayed import check_unmerged
from headrace.spark.pipelines.settings import Replay, Settings, Source
from headrace.spark.pipelines.steps import time_column
from headrace.spark.pipelines.store import INSIDE, Store
from headrace.spark.pipelines.times import time_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

logger = logging.getLogger("headrace.spark")

BATCH_S: Final = 5.0  # of a paced replay: a stop waits about so long, a kill costs no more
BATCH_ROWS: Final = 1_000_000  # of one that is not: a few seconds' work
LONG_S: Final = 60.0  # a micro-batch that takes longer is worth a warning


def rows_of(spark: SparkSession, settings: Settings) -> DataFrame:
    """A stream of rows; with a column `_reason` when some may be bad."""
    if isinstance(settings.beginning, Source):
        return decoded(_topics(spark, settings, settings.beginning), settings.beginning)
    return _replayed(spark, settings, settings.beginning)


def _topics(spark: SparkSession, settings: Settings, source: Source) -> DataFrame:
    reader = spark.readStream.format("headrace").option("servers", settings.servers)
    if source.topic:
        reader = reader.option("subscribe", source.topic)
    else:
        reader = reader.option("subscribePattern", source.pattern)
    if source.start in ("earliest", "latest"):
        reader = reader.option("startingOffsets", source.start)
    else:
        reader = _from_time(reader, time_ms(source.start, "[source] start"))
    if source.max_rows:
        reader = reader.option("maxOffsetsPerTrigger", str(source.max_rows))
    if source.format == "raw" or settings.deadletter is not None:
        reader = reader.option("includeHeaders", "true")  # what stays a record, or goes aside, keeps its own
    if not source.fail_on_data_loss:
        reader = reader.option("failOnDataLoss", "false")
    return told(reader.option("group", source.group or settings.name), settings, source).load()


def _from_time(reader: DataStreamReader, at_ms: int) -> DataStreamReader:
    """A partition that has nothing so young yet is no error: what comes there is younger."""
    return reader.option("startingTimestamp", str(at_ms)).option("startingOffsetsByTimestampStrategy", "latest")


def _replayed(spark: SparkSession, settings: Settings, replay: Replay) -> DataFrame:
    if replay.topic:
        reader = spark.readStream.format("headrace").option("servers", settings.servers)
        reader = reader.option("subscribe", replay.topic).option("includeHeaders", "true")
        if replay.since and not replay.time:
            reader = _from_time(reader, time_ms(replay.since, "[replay] since"))
        else:
            reader = reader.option("startingOffsets", "earliest")
        frame = reader.option("maxOffsetsPerTrigger", str(batch_rows(replay))).load()
    elif replay.format == "delta":
        files = _files_of(spark.read.format("delta").load(replay.path), replay)
        frame = spark.readStream.format("delta").option("maxFilesPerTrigger", str(files)).load(replay.path)
    else:
        check_unmerged(spark, settings, replay)
        schema = spark.read.option("mergeSchema", "true").parquet(replay.path).schema  # of all times
        files = _files_of(spark.read.schema(schema).parquet(replay.path), replay)
        frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", str(files)).parquet(replay.path)
    for name, text in (("since", replay.since), ("until", replay.until)):
        if text:
            at = sf.timestamp_millis(sf.lit(time_ms(text, f"[replay] {name}")))
            column = sf.col(quoted(time_column(frame, replay.time, "[replay]")))
            frame = frame.where(column >= at if name == "since" else column < at)
    return frame


def has_date_of_archive(spark: SparkSession, replay: Source | Replay) -> bool:
    """Whether the column `date` of its rows is the one that an archive made for its folders, and nothing that came."""
    if not isinstance(replay, Replay) or not replay.path:
        return False
    if replay.format == "parquet":
        return Store(spark, replay.path).exists(INSIDE)
    (table,) = spark.sql(f"DESCRIBE DETAIL delta.`{replay.path}`").collect()
    return bool(table["partitionColumns"] == [DATE])


def batch_rows(replay: Replay) -> int:
    """Of one micro-batch."""
    return max(1, min(BATCH_ROWS, int(replay.rate * BATCH_S))) if replay.rate else BATCH_ROWS


def _files_of(archive: DataFrame, replay: Replay) -> int:
    """How many have about the rows of a micro-batch; files tell at their ends how many rows they have."""
    each = archive.groupBy(sf.input_file_name()).agg(sf.count(sf.lit(1)).alias("rows"))
    files, rows, most = each.agg(sf.count("rows"), sf.sum("rows"), sf.max("rows")).collect()[0]
    if not files:
        return 1
    if replay.rate and most > replay.rate * LONG_S:
        logger.warning(
            "[replay] a file of %s has %s rows: at %g rows a second its micro-batch takes %s minutes. Its rows are seen"
            " when all of them are written, and a run that is ended before writes them anew; an archive with a smaller"
            " file_bytes has smaller files",
            *(replay.path, f"{most:,}", replay.rate, f"{most / replay.rate / 60:,.0f}"),
        )
    return max(1, int(batch_rows(replay) * files // rows))
