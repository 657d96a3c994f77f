"""The steps of a pipeline: functions from frame to frame, for `DataFrame.transform` as well as for a file.

    from headrace.spark import pipelines

    frame.transform(pipelines.dedup(by=["id"], time="at", within="10 minutes"))
         .transform(pipelines.rollup(time="at", window="1 minute", values={"orders": "count"}))

Each leaves late rows to Spark's watermark; the progress of a run shows how many (late.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType, TimestampType

from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines.quoting import quoted, spelt_out
from headrace.spark.pipelines.settings import value_of
from headrace.spark.pipelines.times import interval

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Step = Callable[["DataFrame"], "DataFrame"]

TIMES: Final = ("_timestamp", "timestamp")  # the record's own, in decoded rows and in raw ones


def dedup(*, by: Sequence[str], time: str = "", within: str = "10 minutes") -> Step:
    """Of rows that agree in `by`, the first; how long they are remembered is `within`, in event time."""

    def step(frame: DataFrame) -> DataFrame:
        if not by:
            raise InvalidOption("[dedup] by names the columns in which rows are the same")
        for name in by:
            _need(frame, name, "[dedup] by")
        column = time_column(frame, time, "[dedup]")
        return watermarked(frame, column, within).dropDuplicatesWithinWatermark([*by])

    return step


def rollup(
    *,
    window: str,
    values: Mapping[str, str],
    time: str = "",
    slide: str = "",
    late: str = "10 minutes",
    by: Sequence[str] = (),
) -> Step:
    """One row for each window and group, when nothing of it can come any more: `late` after its end."""

    def step(frame: DataFrame) -> DataFrame:
        if not values:
            raise InvalidOption('[rollup] values says what is computed, as orders = "count"')
        for name in by:
            _need(frame, name, "[rollup] by")
        column = time_column(frame, time, "[rollup]")
        frame = watermarked(frame, column, late)
        windows = sf.window(quoted(column), interval(window), interval(slide) if slide else None)
        computed = [aggregate(frame, name, text) for name, text in values.items()]
        grouped = frame.groupBy(windows, *map(quoted, by)).agg(*computed)
        bounds = [sf.col("window.start").alias("window_start"), sf.col("window.end").alias("window_end")]
        return grouped.select(*bounds, *map(quoted, (*by, *values)))

    return step


def aggregate(frame: DataFrame, name: str, text: str) -> Column:
    """As `value_of` reads it."""
    verb, column, share = value_of(name, text)
    if column is None:
        return sf.count(sf.lit(1)).alias(name)
    _need(frame, column, f"[rollup] {name} = {text!r}")
    if share is not None:
        return sf.percentile_approx(quoted(column), share).alias(name)
    computed = {"sum": sf.sum, "min": sf.min, "max": sf.max, "mean": sf.mean, "count": sf.count}
    return computed.get(verb, sf.approx_count_distinct)(quoted(column)).alias(name)


def order(*, time: str = "", late: str = "10 seconds", by: Sequence[str] = ()) -> Step:
    """The same rows in the order of their times, each held back until what may come before it has come."""

    def step(frame: DataFrame) -> DataFrame:
        from headrace.spark.pipelines.ordering import Reorder

        for name in by:
            _need(frame, name, "[order] by")
        column = time_column(frame, time, "[order]")
        frame = watermarked(frame, column, late)
        plain = frame.toDF(*map(spelt_out, frame.columns))
        keyed = plain if by else plain.withColumn(ALL, sf.lit(0))
        ordered = keyed.groupBy(*map(spelt_out, by or (ALL,))).transformWithState(
            statefulProcessor=Reorder(spelt_out(column), dict(zip(plain.columns, frame.columns, strict=True))),
            outputStructType=StructType([StructField(one.name, one.dataType) for one in plain.schema]),
            outputMode="Append",
            timeMode="EventTime",
        )
        return ordered.toDF(*frame.columns)

    return step


ALL: Final = "_all"
WATERMARK: Final = "spark.watermarkDelayMs"  # what Spark notes of a column that has one


def watermarked(frame: DataFrame, column: str, late: str) -> DataFrame:
    """A stream has one watermark: what an earlier step has set, stays."""
    return frame if WATERMARK in frame.schema[column].metadata else frame.withWatermark(quoted(column), interval(late))


def time_column(frame: DataFrame, chosen: str, where: str) -> str:
    """The column that is a row's time: the one that was named, else the record's own."""
    if chosen:
        _need(frame, chosen, f"{where} time")
    else:
        chosen = next((name for name in TIMES if name in frame.columns), "")
        if not chosen:
            raise InvalidOption(f"{where} time names the column that is a row's time")
    if not isinstance(frame.schema[chosen].dataType, TimestampType):
        raise InvalidOption(
            f"{where} time {chosen!r} is {frame.schema[chosen].dataType.simpleString()}, not a timestamp"
        )
    return chosen


def _need(frame: DataFrame, name: str, where: str) -> None:
    if name not in frame.columns:
        raise InvalidOption(f"{where}: there is no column {name!r}; there are {_names(frame.schema)}")


def _names(schema: StructType) -> str:
    return ", ".join(schema.names)
