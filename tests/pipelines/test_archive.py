"""The archive: every row once in a file of its date, whatever was killed when, and small files made large."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines import store
from headrace.spark.pipelines.archive import ArchiveWriter
from headrace.spark.pipelines.run import PipelineFailed
from tests.clients.conftest import program
from tests.pipelines.conftest import SCHEMA, Run, order_at, send
from tests.pipelines.test_topics import read

pytestmark = pytest.mark.timeout(600)  # several runs of Spark, on a busy machine

DAY_S = 86_400


def ids(spark: SparkSession, path: Path) -> list[int]:
    return sorted(
        int(row.id) for row in spark.read.option("mergeSchema", "true").parquet(str(path)).select("id").collect()
    )


def files(path: Path) -> list[Path]:
    return sorted(path.glob("date=*/*.parquet"))


def test_rows_go_to_the_files_of_their_dates_and_a_second_run_goes_on(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    archive = {"path": str(tmp_path / "out"), "time": "at"}
    send(headrace_address, topic, [order_at(number % 3 * DAY_S, number) for number in range(100)])
    assert run(archive=archive).rows == 100
    send(headrace_address, topic, [order_at(0, number) for number in range(100, 130)])
    assert run(archive=archive).rows == 30
    assert ids(piping, tmp_path / "out") == list(range(130))
    assert {file.parent.name for file in files(tmp_path / "out")} == {
        "date=2026-01-31", "date=2026-02-01", "date=2026-02-02",
    }  # fmt: skip


def test_many_small_files_of_a_date_become_one(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    send(headrace_address, topic, [order_at(number, number) for number in range(60)])
    archive = {"path": str(tmp_path / "out"), "time": "at", "compact_files": 4}
    report = run(source={"max_rows": 10}, archive=archive)
    assert report.batches == 6
    assert ids(piping, tmp_path / "out") == list(range(60))
    assert len(files(tmp_path / "out")) < 4


def test_files_that_are_nearly_full_are_not_written_anew_with_every_batch(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    archive = {"path": str(tmp_path / "out"), "time": "at", "compact_files": 0}
    send(headrace_address, topic, [order_at(number, number) for number in range(30)])
    run(source={"max_rows": 10}, archive=archive)
    before = files(tmp_path / "out")
    send(headrace_address, topic, [order_at(number, number) for number in range(30, 40)])
    full = max(file.stat().st_size for file in before)
    run(archive=archive | {"compact_files": 3, "file_bytes": full + full // 10})
    assert set(before) < set(files(tmp_path / "out"))
    assert ids(piping, tmp_path / "out") == list(range(40))


def test_an_archive_is_of_one_pipeline_and_keeps_nothing_in_memory(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    sections = {"deadletter": {"topic": f"{topic}.bad"}, "archive": {"path": str(tmp_path / "out"), "time": "at"}}
    kept = piping.sparkContext._jsc.getPersistentRDDs().size()
    send(headrace_address, topic, [order_at(0, 1), b"nonsense"])
    run("first", **sections)
    assert piping.sparkContext._jsc.getPersistentRDDs().size() == kept
    with pytest.raises(InvalidOption, match=r"out is where the pipeline 'first' writes: give 'second' another path"):
        run("second", **sections)
    send(headrace_address, topic, [order_at(0, 2)])
    run("first", **sections)
    assert ids(piping, tmp_path / "out") == [1, 2]


def test_a_plan_that_was_never_whole_leaves_nothing_behind(piping: SparkSession, tmp_path: Path) -> None:
    found = store.Store(piping, str(tmp_path))
    found.write(f"{store.STAGING}/a/date=2026-01-31/b.parquet", b"staged")
    found.write(f"{store.PLANS}/a.json.new", b"{")
    found.recover()
    assert found.listed(store.STAGING) == found.listed(store.PLANS) == []


@pytest.mark.parametrize(
    "at",
    [
        "before the plan", "after the plan", "amid the moves", "before it is done",
        "after the plan of a merge", "before small files are removed", "amid the removal of small files",
    ],
)  # fmt: skip
def test_a_batch_that_died_on_its_way_is_there_once_after_the_next_run(
    at: str,
    piping: SparkSession,
    headrace_address: str,
    topic: str,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send(headrace_address, topic, [order_at(number % 2 * DAY_S, number) for number in range(40)])
    archive = {"path": str(tmp_path / "out"), "time": "at", "compact_files": 2}
    plain_write, plain_move, plain_remove = store.Store.write, store.Store._move, store.Store.remove
    moved = 0

    def write(self: store.Store, name: str, content: bytes) -> None:
        if at == "before the plan" and name.startswith(store.PLANS):
            raise OSError("killed")
        plain_write(self, name, content)
        if at == "after the plan" and name.startswith(store.PLANS):
            raise OSError("killed")
        if at == "after the plan of a merge" and name.startswith(store.PLANS) and b"-merged-" in content:
            raise OSError("killed")

    def remove(self: store.Store, name: str) -> None:
        is_small = name.startswith("date=") and self.exists(name)  # what is merged: nothing else is there before
        if is_small and at == "before small files are removed":
            raise OSError("killed")
        plain_remove(self, name)
        if is_small and at == "amid the removal of small files":
            raise OSError("killed")

    def move(self: store.Store, old: str, new: str) -> None:
        nonlocal moved
        if at == "before it is done" and new.startswith(store.DONE):
            raise OSError("killed")
        plain_move(self, old, new)
        if old.startswith(store.STAGING):
            moved += 1
            if at == "amid the moves" and moved == 1:
                raise OSError("killed")

    monkeypatch.setattr(store.Store, "write", write)
    monkeypatch.setattr(store.Store, "_move", move)
    monkeypatch.setattr(store.Store, "remove", remove)
    with pytest.raises(PipelineFailed, match="killed"):
        run(source={"max_rows": 20}, archive=archive)
    monkeypatch.undo()
    if at.endswith("small files are removed"):  # as the page says of who reads meanwhile
        meanwhile = ids(piping, tmp_path / "out")
        assert len(meanwhile) > len(set(meanwhile))
    run(source={"max_rows": 20}, archive=archive)
    assert ids(piping, tmp_path / "out") == list(range(40))
    assert not list((tmp_path / "out" / store.PLANS).glob("*.json"))


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_rows_that_were_set_aside_before_an_archive_died_are_aside_once_after_the_next_run(
    kind: str,
    piping: SparkSession,
    headrace_address: str,
    topic: str,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if kind == "delta":
        program("mvn")  # brings its jar

    def killed(_: ArchiveWriter, rows: DataFrame, number: int) -> None:
        raise OSError("killed")

    bad = [b"nonsense %d" % number for number in range(4)]
    send(headrace_address, topic, [value for number in range(4) for value in (order_at(0, number), bad[number])])
    sections: dict[str, Any] = {
        "source": {"max_rows": 4},
        "deadletter": {"topic": f"{topic}.bad"},
        "archive": {"path": str(tmp_path / "out"), "time": "at", "format": kind},
    }
    monkeypatch.setattr(ArchiveWriter, f"_write_{kind}", killed)
    with pytest.raises(PipelineFailed, match="killed"):
        run(**sections)
    assert sorted(record.value or b"" for record in read(headrace_address, f"{topic}.bad", 2)) == bad[:2]
    monkeypatch.undo()
    run(**sections)
    assert sorted(record.value or b"" for record in read(headrace_address, f"{topic}.bad", 4)) == bad
    rows = piping.read.format(kind).load(str(tmp_path / "out")).collect()
    assert sorted(int(row.id) for row in rows) == list(range(4))


def test_a_column_that_the_schema_gains_is_there_from_then_on(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    archive = {"path": str(tmp_path / "out"), "time": "at"}
    send(headrace_address, topic, [order_at(0, 1)])
    run(source={"schema": "id string, at timestamp"}, archive=archive)
    send(headrace_address, topic, [order_at(1, 2)])
    run(archive=archive)
    rows = piping.read.option("mergeSchema", "true").parquet(str(tmp_path / "out")).collect()
    assert {(row.id, row.country) for row in rows} == {("1", None), ("2", "ch")}


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_column_keeps_its_type_and_its_name(
    kind: str, piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    if kind == "delta":
        program("mvn")  # brings its jar
    archive = {"path": str(tmp_path / "out"), "time": "at", "format": kind}
    send(headrace_address, topic, [order_at(0, 1)])
    run(archive=archive)
    with pytest.raises(InvalidOption) as refused:
        run(source={"schema": "id string, amount bigint, at timestamp"}, archive=archive)
    said = str(refused.value)
    assert said.startswith(f"[archive] column 'amount' is double in {tmp_path}/out and would be bigint: a column keeps")
    with pytest.raises(InvalidOption, match=r"column 'ID' is 'id' in .* and would be 'ID': a column keeps"):
        run(source={"schema": "ID bigint, at timestamp"}, archive=archive)
    with pytest.raises(InvalidOption, match="'date' is the archive's own column"):
        run(source={"schema": "id string, date string, at timestamp"}, archive=archive)
    run(source={"schema": "id string, at timestamp"}, archive=archive)  # one that stays away is no change


def test_a_delta_table_gets_each_batch_once_and_new_columns(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    program("mvn")  # brings the jar of Delta
    out = str(tmp_path / "out")
    send(headrace_address, topic, [order_at(number % 2 * DAY_S, number) for number in range(30)])
    archive = {"path": out, "time": "at", "format": "delta", "compact_files": 3}
    run(source={"max_rows": 10, "schema": "id string, at timestamp"}, archive=archive)
    send(headrace_address, topic, [order_at(0, number) for number in range(30, 40)])
    run(archive=archive)
    (tmp_path / "p" / "checkpoint" / "commits" / "3").unlink()  # as if Spark had died before it knew of its last batch
    (tmp_path / "p" / "checkpoint" / "commits" / ".3.crc").unlink(missing_ok=True)
    run(archive=archive)
    rows = piping.read.format("delta").load(out).collect()
    assert sorted(int(row.id) for row in rows) == list(range(40))
    assert {row.country for row in rows} == {None, "ch"}
    history = piping.sql(f"DESCRIBE HISTORY delta.`{out}`").collect()
    assert "OPTIMIZE" in {row.operation for row in history}
    run("again", replay={"path": out, "format": "delta"}, target={"topic": f"{topic}.again"})
    again = [json.loads(record.value or b"") for record in read(headrace_address, f"{topic}.again", 40)]
    assert sorted(int(row["id"]) for row in again) == list(range(40))
    assert {row.get("country") for row in again} == {None, "ch"}
    assert {name for row in again for name in row} == {"id", "country", "amount", "at"}


def test_files_of_different_schemas_become_one_with_all_columns(
    piping: SparkSession, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    archive = {"path": str(tmp_path / "out"), "time": "at", "compact_files": 3}
    schemas = ["id string, at timestamp", SCHEMA, "id string, amount double, at timestamp"]
    for number, schema in enumerate(schemas):
        send(headrace_address, topic, [order_at(number, number)])
        run(source={"schema": schema}, archive=archive)
    (file,) = files(tmp_path / "out")
    assert "-merged-" in file.name
    rows = piping.read.parquet(str(tmp_path / "out")).collect()
    assert {(row.id, row.country, row.amount) for row in rows} == {
        ("0", None, None),
        ("1", "ch", 1.0),
        ("2", None, 2.0),
    }
    assert [row.at.second for row in sorted(rows, key=lambda row: row.id)] == [0, 1, 2]


@pytest.mark.parametrize("place", ["file", "proc"])
def test_a_place_where_no_archive_can_be_is_told_in_javas_own_words(
    headrace_address: str, topic: str, run: Run, tmp_path: Path, place: str
) -> None:
    send(headrace_address, topic, [order_at(0, 1)])
    (tmp_path / "file").write_text("not a folder")
    path = tmp_path / "file" if place == "file" else Path("/proc/nowhere/archive")
    with pytest.raises(PipelineFailed) as failed:
        run(archive={"path": str(path), "time": "at"})
    said = str(failed.value)
    assert "not a directory" in said or "Mkdirs failed" in said
    assert "does not answer" not in said and "An error occurred while calling" not in said
