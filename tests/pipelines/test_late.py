"""Rows that come too late are left out, and each of them is counted, whatever step leaves it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.spark.pipelines.late import late_rows
from headrace.spark.pipelines.progress import progress_of
from tests.pipelines.conftest import Run, order_at, send

pytestmark = pytest.mark.timeout(600)  # several runs of Spark, on a busy machine

NOW_S, LATE_S, FAR_S = 1_000, 10, 100_000  # rows up to 990 come too late, once 1,000 was there
COMING = [*range(7), 400, 401, 402, 985, 991]  # seven for one window, three for another, and two at the edge
ROLLUP = {"time": "at", "window": "1 minute", "late": f"{LATE_S}s", "values": {"n": "count"}}


@pytest.mark.parametrize(
    ("steps", "late", "left"),
    [
        ({"rollup": ROLLUP}, 10, 3),  # the minute of 985 is still open
        ({"rollup": ROLLUP | {"slide": "30s"}}, 11, 5),  # of the two minutes of 985 the first is closed
        ({"dedup": {"by": ["id"], "time": "at", "within": f"{LATE_S}s"}}, 11, 3),
        ({"order": {"time": "at", "late": f"{LATE_S}s"}}, 11, 2),  # the farthest is still held back
        ({"dedup": {"by": ["id"], "time": "at", "within": f"{LATE_S}s"}, "rollup": ROLLUP}, 11, 2),
    ],
    ids=["rollup", "rollup with slide", "dedup", "order", "dedup, rollup"],
)
def test_each_late_row_is_left_out_and_counted(
    steps: dict[str, Any],
    late: int,
    left: int,
    piping: SparkSession,
    headrace_address: str,
    topic: str,
    run: Run,
    tmp_path: Path,
) -> None:
    archive = {"path": str(tmp_path / "out"), "time": "window_start" if "rollup" in steps else "at"}
    send(headrace_address, topic, [order_at(NOW_S, NOW_S)])
    assert run(**steps, archive=archive).late == 0
    send(headrace_address, topic, [order_at(second, second) for second in COMING] + [order_at(FAR_S, FAR_S)])
    assert run(**steps, archive=archive).late == late
    rows = piping.read.parquet(str(tmp_path / "out")).collect()
    assert sum(row.n if "rollup" in steps else 1 for row in rows) == left


def test_windows_that_end_at_the_watermark_are_closed() -> None:
    told = {"rows": 6, "windows": [{"item": 990_000_000, "count": 2}, {"item": 990_000_001, "count": 4}]}
    assert late_rows(told, 990_000) == 2
    assert late_rows({"rows": 0, "windows": None}, 990_000) == 0


def test_what_spark_counts_after_it_has_put_rows_together_is_not_taken() -> None:
    states = [
        {"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": 1},
        {"operatorName": "dedupeWithinWatermark", "numRowsDroppedByWatermark": 3},
    ]
    told = {"batchId": 5, "timestamp": "now", "stateOperators": states}
    windows = {"headrace_windows": {"rows": 9, "windows": [{"item": 1_000, "count": 7}, {"item": 9_000, "count": 2}]}}
    assert progress_of({**told, "observedMetrics": windows}, {4: 5}.__getitem__).late == 10
    assert progress_of(told).late == 4
