"""Where a pipeline's rows go: a topic, exactly once by the sink's transactions.

Bad rows of the same stream go to their own topic in the same transaction, so that a row is in one of the two, and once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, TimestampType

import headrace
from headrace.errors import TopicExists, UnknownTopic
from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines.decoding import HEADERS as OWN
from headrace.spark.pipelines.decoding import RAW, REASON
from headrace.spark.pipelines.quoting import quoted
from headrace.spark.pipelines.settings import Deadletter, Replay, Rollup, Settings, Source, Target

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

READ: Final = ("key", "value", "topic", "partition", "offset", "timestamp")  # the columns of an archive of records
TIMES: Final = {  # as exact in JSON as Spark has them
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
FOR_EVER: Final = {"retention.ms": "-1"}
HEADERS: Final = "array<struct<key:string,value:binary>>"


def make_topics(settings: Settings) -> None:
    """Those that rows go to, with the broker's own defaults: who reads there waits for the first row, however late it
    comes, instead of being told that there is no such topic. What is replayed may be old, and keep its time: retention
    must not take it before anybody saw it."""
    made: dict[str, dict[str, str]] = {}
    if settings.deadletter is not None:
        made[settings.deadletter.topic] = {}
    if isinstance(settings.end, Target):
        made[settings.end.topic] = FOR_EVER if isinstance(settings.beginning, Replay) else {}
    if not made:
        return
    with headrace.connect(settings.servers) as client:
        for name, config in made.items():
            try:
                client.admin.topic(name)
            except UnknownTopic:
                with contextlib.suppress(TopicExists):  # since we looked
                    client.admin.create_topic(name, config=config)


def are_records(frame: DataFrame, settings: Settings) -> bool:
    """Whether rows are records as they came. What was decoded or rolled up may have columns of the same names."""
    return not any(isinstance(step, Rollup) for step in settings.steps) and came_as_records(frame, settings)


def came_as_records(frame: DataFrame, settings: Settings) -> bool:
    """Whether they are when they are read, before any step."""
    begin = settings.beginning
    if isinstance(begin, Source):
        return begin.format == "raw"
    kinds = {field.name: field.dataType for field in frame.schema}
    if begin.topic:
        return True
    are_bytes = kinds.keys() >= set(READ) and kinds["key"] == kinds["value"] == BinaryType()
    return are_bytes and kinds["timestamp"] == TimestampType()


def records_of(frame: DataFrame, target: Target, *, as_they_came: bool, left_out: Collection[str] = ()) -> DataFrame:
    """As the sink takes them. What came as a record keeps its headers and its time; a row that was decoded is written
    as a new one."""
    frame = frame.drop(RAW, REASON)
    if target.key and target.key not in frame.columns:
        raise InvalidOption(f"[target] key: there is no column {target.key!r}; there are {', '.join(frame.columns)}")
    if as_they_came:
        key, value = sf.col(quoted(target.key or "key")).cast("binary"), sf.col("value").cast("binary")
        headers = sf.col("headers") if "headers" in frame.columns else sf.lit(None)  # of archives that have none
        at = sf.col("timestamp")
    else:
        value = as_json(frame, left_out)
        kept = sf.col("_key") if "_key" in frame.columns else sf.lit(None)
        key = (sf.col(quoted(target.key)) if target.key else kept).cast("string").cast("binary") if target.key else kept
        key, headers, at = key.cast("binary"), sf.lit(None), sf.lit(None)
    return frame.select(
        key.alias("key"),
        value.alias("value"),
        headers.cast(HEADERS).alias("headers"),
        at.cast("timestamp").alias("timestamp"),
        sf.lit(target.topic).alias("topic"),
    )


def as_json(frame: DataFrame, left_out: Collection[str] = ()) -> Column:
    """A row as a value, without what stands beside it."""
    own = [name for name in frame.columns if not name.startswith("_") and name not in left_out]
    return sf.to_json(sf.struct(*map(quoted, own)), TIMES).cast("binary")


def bad_records(frame: DataFrame, deadletter: Deadletter) -> DataFrame:
    """The raw bytes and the record's own headers, with the reason and where and when they came from beside them, as far
    as that is known: files may have rows that never were records."""
    told = {
        "headrace.reason": sf.col(REASON),
        "headrace.topic": sf.col("_topic"),
        "headrace.partition": sf.col("_partition").cast("string"),
        "headrace.offset": sf.col("_offset").cast("string"),
        "headrace.timestamp": sf.unix_millis("_timestamp").cast("string"),
    }
    told = {name: column for name, column in told.items() if name.replace("headrace.", "_") in frame.columns}
    own = sf.coalesce(sf.col(OWN), sf.array().cast(HEADERS)) if OWN in frame.columns else sf.array().cast(HEADERS)
    headers = sf.array(*(sf.struct(sf.lit(k).alias("key"), v.cast("binary").alias("value")) for k, v in told.items()))
    return frame.select(
        (sf.col("_key") if "_key" in frame.columns else sf.lit(None)).cast("binary").alias("key"),
        sf.col(RAW).alias("value"),
        sf.concat(own, headers.cast(HEADERS)).alias("headers"),
        sf.lit(None).cast("timestamp").alias("timestamp"),
        sf.lit(deadletter.topic).alias("topic"),
    )
