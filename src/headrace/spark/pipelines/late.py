"""Rows that come too late for a rollup, counted one by one.

Spark counts what it leaves out of windows only after it has put rows together: of a closed window that is one, however
many rows came for it. So each micro-batch tells, before that, how many rows it has for which windows (`observed`), and
whoever hears of it compares them with the watermark that held: Spark goes by the one of the micro-batch before.

A row is late when the first of its windows to end was closed before it came. With `slide` it may still be in others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sf

from headrace.spark.pipelines.quoting import quoted
from headrace.spark.pipelines.settings import Rollup
from headrace.spark.pipelines.times import interval, seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.spark.pipelines.store import Store

METRIC: Final = "headrace_windows"
OPERATOR: Final = "stateStoreSave"  # whose own count this replaces
WINDOWS: Final = 10_000  # of one micro-batch that are told apart: what is told is kept in memory


def observed(rows: DataFrame, column: str, step: Rollup) -> DataFrame:
    """The same rows; each micro-batch tells how many come for each window, by the end of their first one."""
    length = _micros(step.window)
    slide = _micros(step.slide) if step.slide else length
    since = sf.unix_micros(quoted(column)) - sf.lit(length)
    end = since - sf.pmod(since, sf.lit(slide)) + sf.lit(slide + length)
    counts = sf.call_function("approx_top_k", end, sf.lit(WINDOWS), sf.lit(4 * WINDOWS))  # exact up to so many
    return rows.observe(METRIC, sf.count(end).alias("rows"), counts.alias("windows"))


def _micros(text: str) -> int:
    return round(seconds(interval(text)) * 1_000_000)


def late_rows(told: Mapping[str, Any], watermark_ms: int) -> int:
    """Of one micro-batch, by what it told and the watermark that held."""
    windows = told.get("windows") or []
    return sum(one["count"] for one in windows if one["item"] <= watermark_ms * 1000)


def watermark_ms(checkpoint: Store, batch: int) -> int:
    """The watermark of a micro-batch; 0 where there was none yet."""
    name = f"offsets/{batch}"
    if batch < 0 or not checkpoint.exists(name):
        return 0
    return int(json.loads(checkpoint.read(name).splitlines()[1]).get("batchWatermarkMs", 0))
