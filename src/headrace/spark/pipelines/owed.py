"""The micro-batch without rows that a run owes when it was ended too early.

After a micro-batch that moved the watermark Spark makes one more, without rows, in which windows close and rows that
waited go on. Whether it is needed Spark knows only from what the same run did before: a run that ends between the two,
stopped or killed, leaves what is due in the state, and the next would do nothing about it until new rows come. So the
next one looks into the checkpoint, and plans that micro-batch as Spark would have; Spark, which finds a plan that was
not carried out, does so.

Rows that came meanwhile come before it. They belong to the next micro-batch, as in a run that nobody ended, and that
one lets go of what is due as well; with one more between, some of them would be late.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.pipelines.late import watermark_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.spark.pipelines.store import Store

WITHOUT_ROWS: Final = "spark.sql.streaming.noDataMicroBatches.enabled"


def is_owed(spark: SparkSession, checkpoint: Store) -> bool:
    """Whether the last micro-batch is done and has moved the watermark, and none came after it."""
    last = _last(checkpoint)
    done = f"commits/{last}"
    if str(spark.conf.get(WITHOUT_ROWS)).lower() == "false" or not checkpoint.exists(done):
        return False
    moved_to: int = _noted(checkpoint, done).get("nextBatchWatermarkMs", 0)
    return moved_to > watermark_ms(checkpoint, last)


def plan(checkpoint: Store) -> None:
    """One that reads up to where the last one did, with the watermark to which that one has moved it."""
    last = _last(checkpoint)
    version, noted, *ends = checkpoint.read(f"offsets/{last}").split(b"\n")
    moved = {
        "batchWatermarkMs": _noted(checkpoint, f"commits/{last}")["nextBatchWatermarkMs"],
        "batchTimestampMs": int(time.time() * 1000),
    }
    fresh = json.dumps(json.loads(noted) | moved, separators=(",", ":")).encode()
    checkpoint.write(f"offsets/{last + 1}", b"\n".join((version, fresh, *ends)))


def _last(checkpoint: Store) -> int:
    """The newest micro-batch that was planned; -1: none was."""
    names = (name.rpartition("/")[2] for name, _ in checkpoint.listed("offsets"))
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def _noted(checkpoint: Store, name: str) -> dict[str, Any]:
    """What Spark writes down after the version of the file."""
    found: dict[str, Any] = json.loads(checkpoint.read(name).split(b"\n")[1])
    return found
