"""What is due when a run ends, and was not done: the next run does it, though no new rows came."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from headrace.spark import pipelines
from headrace.spark.pipelines import owed
from headrace.spark.pipelines.store import Store
from tests.pipelines.conftest import SCHEMA, Run, order_at, send
from tests.pipelines.test_restarts import committed

pytestmark = pytest.mark.timeout(600)  # several runs of Spark, on a busy machine

WINDOWS: Final = {"rollup": {"time": "at", "window": "10s", "late": "5s", "values": {"n": "count"}}}
SORTED: Final = {"order": {"time": "at", "late": "5s"}}
LIMIT_S: Final = 180.0  # of a run that goes on for ever, and has to do what is due
SECONDS: Final = (3, 1, 12, 2, 100)  # the last one lets go of those before


@contextmanager
def nothing_without_rows(spark: SparkSession) -> Iterator[None]:
    """Runs meanwhile end as those that are killed after their last micro-batch with rows."""
    spark.conf.set(owed.WITHOUT_ROWS, "false")
    try:
        yield
    finally:
        spark.conf.unset(owed.WITHOUT_ROWS)


def results(address: str, topic: str, step: dict[str, Any]) -> list[Any]:
    rows = [json.loads(record.value or b"") for record in committed(address, topic)]
    if step == SORTED:
        return [int(row["id"]) for row in rows]
    return sorted((row["window_start"][17:19], row["n"]) for row in rows)


@pytest.mark.parametrize("trigger", ["available-now", "100ms"])
@pytest.mark.parametrize(
    ("step", "due"), [(WINDOWS, [("00", 3), ("10", 1)]), (SORTED, [1, 3, 0, 2])], ids=["rollup", "order"]
)
def test_what_is_due_when_a_run_is_killed_comes_with_the_next_one_though_no_rows_do(
    piping: SparkSession,
    headrace_address: str,
    topic: str,
    tmp_path: Path,
    step: dict[str, Any],
    due: list[Any],
    trigger: str,
) -> None:
    send(headrace_address, topic, [order_at(second, number) for number, second in enumerate(SECONDS)])
    tree = {
        "name": "p",
        "servers": headrace_address,
        "folder": str(tmp_path / "p"),
        "source": {"topic": topic, "format": "json", "schema": SCHEMA},
        **step,
        "target": {"topic": f"{topic}.out"},
    }
    with nothing_without_rows(piping):
        pipelines.run(piping, pipelines.settings_of(tree), lambda _: None)
        assert pipelines.run(piping, pipelines.settings_of(tree), lambda _: None).batches == 0
    assert results(headrace_address, f"{topic}.out", step) == []
    lines = list[str]()
    settings, deadline = pipelines.settings_of(tree | {"trigger": trigger}), time.monotonic() + LIMIT_S
    report = pipelines.run(piping, settings, lines.append, lambda: bool(lines) or time.monotonic() > deadline)
    assert (report.batches, report.rows, report.late) == (1, 0, 0)
    assert results(headrace_address, f"{topic}.out", step) == due
    assert pipelines.run(piping, pipelines.settings_of(tree), lambda _: None).batches == 0
    assert not owed.is_owed(piping, Store(piping, settings.checkpoint))


def test_what_is_due_does_not_make_rows_late_that_came_before_it_was_done(
    piping: SparkSession, headrace_address: str, topic: str, run: Run
) -> None:
    """As without the kill: they are in the micro-batch that lets go of their window."""
    sections: dict[str, Any] = {**WINDOWS, "target": {"topic": f"{topic}.out"}}
    send(headrace_address, topic, [order_at(second, number) for number, second in enumerate(SECONDS)])
    with nothing_without_rows(piping):
        run(**sections)
    send(headrace_address, topic, [order_at(4, 9)])
    report = run(**sections)
    assert (report.rows, report.late) == (1, 0)
    assert results(headrace_address, f"{topic}.out", WINDOWS) == [("00", 4), ("10", 1)]
