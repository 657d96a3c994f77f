"""Runs that end before their rows do, stopped or failed, or go on with other columns; and what the next one finds."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

import headrace
from headrace.errors import UnknownTopic
from headrace.spark import pipelines
from headrace.spark.pipelines import beginnings
from headrace.spark.pipelines.progress import PROGRESS, append, history, recorded
from headrace.spark.pipelines.run import PipelineFailed, state_of
from tests.pipelines.conftest import SCHEMA, Run, order_at, send
from tests.pipelines.test_topics import read

pytestmark = pytest.mark.timeout(600)  # several runs of Spark, on a busy machine

running = importlib.import_module("headrace.spark.pipelines.run")  # the package has a function of that name


@pytest.mark.parametrize(
    ("rate", "rows"), [(0.0, beginnings.BATCH_ROWS), (0.01, 1), (1000.0, 5000), (1e9, beginnings.BATCH_ROWS)]
)
def test_a_micro_batch_of_a_replay_is_a_few_seconds_of_its_rate(rate: float, rows: int) -> None:
    assert beginnings.batch_rows(pipelines.settings.Replay(topic="t", rate=rate)) == rows


def test_a_replay_that_is_stopped_has_done_some_micro_batches_and_the_next_run_does_the_others(
    piping: SparkSession,
    headrace_address: str,
    topic: str,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(beginnings, "BATCH_S", 1.0)
    values = [order_at(0, number) for number in range(200)]
    send(headrace_address, topic, values)
    run("store", source={"max_rows": 25}, archive={"path": str(tmp_path / "out"), "time": "at", "compact_files": 0})
    # Spark notes down which files are next before it plans their micro-batch: a stop in between joins two of them.
    for name, beginning, batches in (
        ("of-topic", {"topic": topic, "rate": 25.0}, 8),
        ("of-files", {"path": str(tmp_path / "out"), "rate": 25.0}, 7),
    ):
        tree = {
            "name": name,
            "servers": headrace_address,
            "folder": str(tmp_path / name),
            "replay": beginning,
            "target": {"topic": f"{topic}.{name}"},
        }
        settings, lines = pipelines.settings_of(tree), list[str]()
        first = pipelines.run(piping, settings, lines.append, lambda said=lines: bool(said))  # type: ignore[misc]
        assert first.state == "stopped"
        assert 25 <= first.rows < 200, first
        second = pipelines.run(piping, settings, lines.append)
        assert second.state == "done"
        assert first.batches + second.batches >= batches, (first, second)
        found = [json.loads(record.value or b"")["id"] for record in read(headrace_address, f"{topic}.{name}", 200)]
        assert sorted(map(int, found)) == list(range(200))


def test_a_replay_that_takes_minutes_for_one_file_says_so_before_it_begins(
    piping: SparkSession,
    headrace_address: str,
    topic: str,
    run: Run,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    send(headrace_address, topic, [order_at(0, number) for number in range(200)])
    run("store", source={"max_rows": 180}, archive={"path": str(tmp_path / "out"), "time": "at", "compact_files": 0})
    for rate, is_told in ((1.0, True), (3.0, False)):
        caplog.clear()
        tree: dict[str, Any] = {"name": "p", "replay": {"path": str(tmp_path / "out"), "rate": rate}}
        settings = pipelines.settings_of(tree | {"folder": str(tmp_path / "p"), "target": {"topic": f"{topic}.again"}})
        assert beginnings.rows_of(piping, settings).isStreaming
        said = f"[replay] a file of {tmp_path}/out has 180 rows: at 1 rows a second its micro-batch takes 3 minutes."
        assert any(message.startswith(said) for message in caplog.messages) == is_told


@pytest.mark.parametrize(
    ("steps", "outputs"),
    [
        (
            {
                "deadletter": {"topic": "{bad}", "checks": {"amount is not positive": "amount > 0"}},
                "dedup": {"by": ["id"], "time": "at", "within": "1 hour"},
                "rollup": {"time": "at", "window": "10s", "late": "5s", "values": {"n": "count", "sum": "sum(amount)"}},
            },
            ("out", "bad"),
        ),
        ({"order": {"time": "at", "late": "20s"}}, ("out",)),
    ],
    ids=["deadletter, dedup, rollup", "order"],
)  # fmt: skip
def test_steps_that_are_stopped_between_micro_batches_end_as_those_that_are_not(
    piping: SparkSession,
    headrace_address: str,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: dict[str, Any],
    outputs: Sequence[str],
) -> None:
    monkeypatch.setattr(running, "LOOK_S", 0.05)
    shuffled = [(number * 37) % 151 for number in range(151)]
    send(headrace_address, topic, [order_at(number, number - number % 7) for number in shuffled] + [order_at(9_999, 1)])

    def settings(name: str) -> pipelines.Settings:
        tree = {
            "name": name,
            "servers": headrace_address,
            "folder": str(tmp_path / name),
            "source": {"topic": topic, "format": "json", "schema": SCHEMA, "max_rows": 15},
            **{step: one | ({"topic": f"{topic}.{name}.bad"} if "topic" in one else {}) for step, one in steps.items()},
            "target": {"topic": f"{topic}.{name}.out"},
        }
        return pipelines.settings_of(tree)

    whole = pipelines.run(piping, settings("whole"), lambda _: None)
    states = []
    for _ in range(3):
        lines = list[str]()
        report = pipelines.run(piping, settings("parts"), lines.append, lambda said=lines: len(said) > 1)  # type: ignore[misc]
        states.append(report.state)
    assert states[:2] == ["stopped", "stopped"], states
    last = pipelines.run(piping, settings("parts"), lambda _: None)
    assert (whole.state, last.state) == ("done", "done")
    for output in outputs:
        expected, found = (
            [record.value for record in committed(headrace_address, f"{topic}.{name}.{output}")]
            for name in ("whole", "parts")
        )
        assert expected, output
        if "order" in steps:
            assert found == expected
        assert sorted(map(str, found)) == sorted(map(str, expected))


def committed(address: str, topic: str) -> list[headrace.Record]:
    """None of a topic that is not there: what lacks is told by who compares."""
    with headrace.connect(address) as client:
        try:
            with client.consumer(topic, isolation="read_committed", follow=False) as consumer:
                return list(consumer)
        except UnknownTopic:
            return []


def test_a_start_by_time_after_all_of_a_partition_is_its_end(headrace_address: str, topic: str, run: Run) -> None:
    send(headrace_address, topic, [order_at(0, 1)])
    late = {"start": "2100-01-01T00:00:00Z", "format": "raw", "schema": ""}
    assert run("late", source=late, target={"topic": f"{topic}.late"}).rows == 0
    again = {"topic": topic, "since": "2100-01-01T00:00:00Z"}
    assert run("again", replay=again, target={"topic": f"{topic}.late"}).rows == 0


def test_a_query_that_fails_while_it_is_asked_to_stop_has_failed_says_why_and_leaves_nobody_listening(
    piping: SparkSession, headrace_address: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_java(_: SparkSession) -> None:
        raise Py4JError("it is gone")

    monkeypatch.setattr(running, "LOOK_S", 0.001)
    monkeypatch.setattr(running, "_drain", without_java)
    send(headrace_address, topic, [b"nonsense"])
    tree: dict[str, Any] = {
        "name": "p",
        "servers": headrace_address,
        "folder": str(tmp_path / "p"),
        "source": {"topic": topic, "format": "json", "schema": SCHEMA},
        "target": {"topic": f"{topic}.done"},
    }
    settings = pipelines.settings_of(tree)
    listening = len(piping._jsparkSession.streams().listListeners())

    was_under_way = list[bool]()

    def is_under_way() -> bool:
        was_under_way.append(
            any(query.status["isTriggerActive"] for query in piping.streams.active if query.name == "p")
        )
        return was_under_way[-1]

    with pytest.raises(PipelineFailed, match="the value is not JSON of the schema"):
        pipelines.run(piping, settings, lambda _: None, is_under_way)
    assert was_under_way[-1], "it failed before it was asked to stop"
    state = state_of(settings.home)
    assert state is not None
    assert state.state == "failed"
    assert "the value is not JSON of the schema" in (state.error or "")
    assert len(piping._jsparkSession.streams().listListeners()) == listening


def test_rows_that_wait_for_their_order_have_null_in_a_column_that_came_since(
    headrace_address: str, topic: str, run: Run
) -> None:
    sections: dict[str, Any] = {"order": {"time": "at", "late": "1s"}, "target": {"topic": f"{topic}.sorted"}}
    send(headrace_address, topic, [order_at(1, 1), order_at(0, 0)])
    run(**sections)
    send(headrace_address, topic, [order_at(9000, 2)])
    run(source={"schema": f"{SCHEMA}, note string"}, **sections)
    found = [json.loads(record.value or b"") for record in read(headrace_address, f"{topic}.sorted", 2)]
    assert [(row["id"], row.get("note")) for row in found] == [("0", None), ("1", None)]


def test_progress_that_is_written_down_for_ever_keeps_its_newer_half_and_counts_the_older(tmp_path: Path) -> None:
    line = (
        b'{"batch":%d,"at":"","rows":1,"seconds":1.0,"rows_per_s":1.0,"lag":0,"state_rows":0,"state_bytes":0,'
        b'"late":0,"watermark":null}'
    )
    for number in range(500):
        append(tmp_path / PROGRESS, line % number, limit=10_000)
        assert (tmp_path / PROGRESS).stat().st_size <= 10_000
        assert (history(tmp_path).batches, history(tmp_path).rows) == (number + 1, number + 1)
    found = [one.batch for one in recorded(tmp_path)]
    assert found == list(range(found[0], 500))
    assert len(found) > 20


def test_what_the_log_lost_ends_a_run_unless_the_file_says_otherwise_and_other_parts_need_a_new_start(
    headrace_address: str, topic: str, run: Run
) -> None:
    target = {"topic": f"{topic}.out"}
    send(headrace_address, topic, [order_at(0, number) for number in range(5)])
    assert run(target=target).rows == 5
    send(headrace_address, topic, [order_at(0, number) for number in range(5, 10)])
    with headrace.connect(headrace_address) as client:
        client.admin.delete_records(topic, {0: 8})
    advice = r"`fail_on_data_loss = false` in \[source\] goes on without what is lost; to begin anew .* remove .*/p "
    with pytest.raises(PipelineFailed, match=advice):
        run(target=target)
    assert run(source={"fail_on_data_loss": False}, target=target).rows == 2
    with pytest.raises(PipelineFailed, match=r"the file has other parts than .* remove the pipeline's folder"):
        run(source={"fail_on_data_loss": False}, target=target, deadletter={"topic": f"{topic}.bad"})
