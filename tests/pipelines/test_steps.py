"""Rollup, dedup and order on real Spark, each over several micro-batches and with a restart in the middle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines.run import PipelineFailed
from tests.pipelines.conftest import Run, order_at, send
from tests.pipelines.test_topics import read

pytestmark = pytest.mark.timeout(600)  # several runs of Spark, on a busy machine

FAR = 100_000  # a row so late that every window before it is closed


def test_a_rollup_counts_each_window_once_over_a_restart(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    rollup = {
        "time": "at", "window": "1 minute", "late": "30s", "by": ["country"],
        "values": {"n": "count", "total": "sum(amount)", "least": "min(amount)", "most": "max(amount)",
                   "mean": "mean(amount)", "half": "quantile(amount, 0.5)", "ids": "distinct(id)"},
    }  # fmt: skip
    archive = {"path": str(tmp_path / "out"), "time": "window_start"}
    send(headrace_address, topic, [order_at(second, second, "ch" if second % 2 else "de") for second in range(90)])
    run(rollup=rollup, archive=archive)
    send(headrace_address, topic, [order_at(second, second, "ch" if second % 2 else "de") for second in range(90, 120)])
    send(headrace_address, topic, [order_at(FAR, 0)])
    run(rollup=rollup, archive=archive)
    send(headrace_address, topic, [order_at(0, 0)])  # too late: counted, and left out
    report = run(rollup=rollup, archive=archive)
    rows = piping.read.parquet(str(tmp_path / "out")).collect()
    assert {(row.window_start.minute, row.country, row.n, row.total, row.least, row.most) for row in rows} == {
        (0, "ch", 30, 900.0, 1.0, 59.0),
        (0, "de", 30, 870.0, 0.0, 58.0),
        (1, "ch", 30, 2700.0, 61.0, 119.0),
        (1, "de", 30, 2670.0, 60.0, 118.0),
    }
    assert len(rows) == 4
    assert {(row.window_start.minute, row.country): (row.mean, row.half) for row in rows} == {
        (0, "ch"): (30.0, 29.0), (0, "de"): (29.0, 28.0), (1, "ch"): (90.0, 89.0), (1, "de"): (89.0, 88.0),
    }  # fmt: skip
    assert all(abs(row.ids - 30) <= 3 for row in rows)  # approximate, as Spark's is
    assert report.late == 1


def test_dedup_keeps_the_first_of_each_id_over_a_restart(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    dedup, archive = {"by": ["id"], "time": "at", "within": "1 hour"}, {"path": str(tmp_path / "out"), "time": "at"}
    send(headrace_address, topic, [order_at(second, second % 20) for second in range(60)])
    run(source={"max_rows": 25}, dedup=dedup, archive=archive)
    send(headrace_address, topic, [order_at(second, second % 25) for second in range(60, 100)])
    run(source={"max_rows": 25}, dedup=dedup, archive=archive)
    found = [int(row.id) for row in piping.read.parquet(str(tmp_path / "out")).collect()]
    assert sorted(found) == list(range(25))


def test_rows_come_out_in_the_order_of_their_times(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    """Each batch's file holds its rows as they came out, and batches follow each other."""
    shuffled = [(second * 37) % 101 for second in range(101)]
    order, archive = {"time": "at", "late": "200s"}, {"path": str(tmp_path / "out"), "time": "at", "compact_files": 0}
    send(headrace_address, topic, [order_at(second, second) for second in shuffled[:50]])
    run(source={"max_rows": 20}, order=order, archive=archive)
    send(headrace_address, topic, [order_at(second, second) for second in [*shuffled[50:], FAR]])
    run(source={"max_rows": 20}, order=order, archive=archive)
    out = []
    for file in sorted((tmp_path / "out").glob("date=*/*.parquet"), key=lambda file: file.stat().st_mtime_ns):
        out += [int(row.id) for row in piping.read.parquet(str(file)).collect()]
    assert out == list(range(101))


def test_steps_follow_each_other(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    send(headrace_address, topic, [order_at(second // 2, second // 2) for second in range(120)])
    send(headrace_address, topic, [order_at(FAR, 0)])
    run(
        dedup={"by": ["id"], "time": "at", "within": "1 minute"},
        rollup={"time": "at", "window": "30s", "late": "1 minute", "values": {"n": "count"}},
        archive={"path": str(tmp_path / "out"), "time": "window_start"},
    )
    assert [row.n for row in piping.read.parquet(str(tmp_path / "out")).orderBy("window_start").collect()] == [30, 30]


def test_a_column_may_have_a_dot_in_its_name(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    def span(second: int, name: str) -> dict[str, object]:
        return {"service.name": name, "at.start": f"2026-01-31T00:{second // 60:02}:{second % 60:02}.000000Z"}

    spans = [span(0, "a"), span(1, "b"), span(1, "b"), span(300, "c")]
    send(headrace_address, topic, [json.dumps(one).encode() for one in [*spans, {"service.name": "d"}]])
    source = {"schema": "`service.name` string, `at.start` timestamp"}
    aside, dedup = {"topic": f"{topic}.bad"}, {"by": ["service.name"], "time": "at.start", "within": "1s"}
    order = {"time": "at.start", "late": "1s", "by": ["service.name"]}
    target = {"topic": f"{topic}.out", "key": "service.name"}
    run("sorted", source=source, deadletter=aside, dedup=dedup, order=order, target=target)
    found = sorted(read(headrace_address, f"{topic}.out", 2), key=lambda record: record.key or b"")
    assert [(record.key, json.loads(record.value or b"")) for record in found] == [(b"a", spans[0]), (b"b", spans[1])]
    (bad,) = read(headrace_address, f"{topic}.bad", 1)
    assert dict(bad.headers)["headrace.reason"] == b"at.start is null, and [dedup] goes by it"

    archive = {"path": str(tmp_path / "files"), "time": "at.start"}
    run("store", source=source, deadletter=aside, archive=archive)
    values = {"n.all": "count", "last.at": "max(at.start)", "names": "distinct(service.name)"}
    rollup = {"time": "at.start", "window": "1 minute", "late": "1s", "by": ["service.name"], "values": values}
    replay = {"path": archive["path"], "time": "at.start", "since": "2026-01-31T00:00:01Z", "rate": 1000.0}
    run("minutes", replay=replay, rollup=rollup, target={"topic": f"{topic}.minutes"})
    (minute,) = read(headrace_address, f"{topic}.minutes", 1)
    told = json.loads(minute.value or b"")
    assert (told["service.name"], told["n.all"], told["last.at"]) == ("b", 2, spans[1]["at.start"])


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"dedup": {"by": ["nr"]}}, "there is no column 'nr'"),
        ({"dedup": {"by": ["id"], "time": "amount"}}, "'amount' is double, not a timestamp"),
        ({"rollup": {"window": "1 minute", "values": {"n": "median(amount)"}}}, "is none of count, sum(x)"),
        ({"rollup": {"window": "1 minute", "values": {"n": "quantile(amount, 7)"}}}, "a share from 0 to 1"),
        ({"rollup": {"window": "often", "values": {"n": "count"}}}, "'often' is no length of time"),
        ({"source": {"schema": "id strng"}}, "[source] schema 'id strng' is none"),
        ({"source": {"start": "yesterday"}}, "[source] start 'yesterday' is no time"),
    ],
)
def test_what_does_not_fit_the_rows_is_one_sentence(
    sections: dict[str, object], words: str, run: Run, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOption) as refused:
        run(**sections, archive={"path": str(tmp_path / "out")})
    assert words in str(refused.value)


def test_a_row_that_does_not_decode_stops_the_pipeline_by_name(
    headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    send(headrace_address, topic, [order_at(0, 0), b"{not json"])
    with pytest.raises(
        PipelineFailed, match=r"the value is not JSON of the schema: .*, in topic .* partition 0 offset 1"
    ):
        run(archive={"path": str(tmp_path / "out"), "time": "at"})


TIMED: dict[str, dict[str, object]] = {
    "rollup": {"time": "at", "window": "1 minute", "late": "1s", "values": {"n": "count"}},
    "dedup": {"by": ["id"], "time": "at"},
    "order": {"time": "at"},
}
WITHOUT_TIME = b'{"id": "7", "country": "ch", "amount": 7.0}'


@pytest.mark.parametrize("step", TIMED)
def test_a_row_without_a_time_stops_the_pipeline_by_name(
    headrace_address: str, topic: str, run: Run, tmp_path: Path, step: str
) -> None:
    send(headrace_address, topic, [order_at(0, 0), WITHOUT_TIME])
    said = rf"at is null, and \[{step}\] goes by it, in topic {topic} partition 0 offset 1; \[deadletter\] sets"
    with pytest.raises(PipelineFailed, match=said):
        run(
            **{step: TIMED[step]},
            archive={"path": str(tmp_path / "out"), "time": "window_start" if step == "rollup" else "at"},
        )


def test_a_row_without_a_time_goes_aside_with_the_reason(headrace_address: str, topic: str, run: Run) -> None:
    send(headrace_address, topic, [order_at(0, 0), WITHOUT_TIME, order_at(FAR, 1), WITHOUT_TIME])
    steps = {"dedup": TIMED["dedup"], "rollup": TIMED["rollup"]}
    run(deadletter={"topic": f"{topic}.bad"}, **steps, target={"topic": f"{topic}.minutes"})
    aside = read(headrace_address, f"{topic}.bad", 2)
    assert {record.value for record in aside} == {WITHOUT_TIME}
    assert {dict(record.headers)["headrace.reason"] for record in aside} == {b"at is null, and [dedup] goes by it"}
    (minute,) = read(headrace_address, f"{topic}.minutes", 1)
    assert json.loads(minute.value or b"")["n"] == 1


def test_null_in_the_key_of_a_step_is_a_value_as_any_other(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    """As the page says: of rows without an id the first is kept."""
    nameless = b'{"at": "2026-01-31T00:00:01Z"}'
    send(headrace_address, topic, [nameless, order_at(0, 0), nameless])
    run(dedup={"by": ["id"], "time": "at"}, archive={"path": str(tmp_path / "out"), "time": "at"})
    rows = piping.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.id or "" for row in rows) == ["", "0"]
