"""What a run leaves for later: rows and windows that wait, of which its report tells, and topics without rows yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headrace
from tests.pipelines.conftest import Run, order_at, send
from tests.pipelines.test_owed import SECONDS, SORTED, WINDOWS

pytestmark = pytest.mark.timeout(600)  # several runs of Spark, on a busy machine


@pytest.mark.parametrize(
    ("step", "waiting"),
    [
        (WINDOWS, "windows that end after 2026-01-31T00:01:35.000Z (rows so far: 1)"),
        (SORTED, "rows after 2026-01-31T00:01:35.000Z"),
        ({"dedup": {"by": ["id"], "time": "at"}}, None),
    ],
    ids=["rollup", "order", "dedup"],
)
def test_the_report_tells_what_waits_though_the_run_is_done(
    headrace_address: str, topic: str, run: Run, step: dict[str, Any], waiting: str | None
) -> None:
    send(headrace_address, topic, [order_at(second, number) for number, second in enumerate(SECONDS)])
    for rows in (len(SECONDS), 0):
        report = run(target={"topic": f"{topic}.out"}, **step)
        assert (report.state, report.rows, report.waiting) == ("done", rows, waiting)
        assert report.line.endswith(f"; {waiting} wait for later times" if waiting else "rows/s)")


def test_the_topics_that_rows_go_to_are_there_before_the_first_row_is(
    headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    with headrace.connect(headrace_address) as client:
        client.admin.create_topic(topic)
        client.admin.create_topic(f"{topic}.wide", partitions=3)
        run("one", deadletter={"topic": f"{topic}.bad"}, target={"topic": f"{topic}.good"})
        run("two", deadletter={"topic": f"{topic}.worse"}, archive={"path": str(tmp_path / "out"), "time": "at"})
        run("three", target={"topic": f"{topic}.wide"})
        made = {
            name: len(client.admin.topic(f"{topic}.{name}").partitions) for name in ("bad", "good", "worse", "wide")
        }
    assert made == {"bad": 1, "good": 1, "worse": 1, "wide": 3}
