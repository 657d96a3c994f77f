"""`headrace pipeline run` on real Spark in processes of their own: watched, stopped, killed and run again, with every
record once in the end."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.spark.jars import DELTA
from headrace.spark.jars import fetched as jar_files
from headrace.spark.pipelines.progress import recorded
from headrace.spark.pipelines.run import STOP
from tests.clients.conftest import program
from tests.pipelines.commands import LIMIT_S, SMALL, Commands, until
from tests.pipelines.conftest import send
from tests.pipelines.test_topics import read
from tests.spark_cluster.cluster import running, stranger
from tests.spark_cluster.job import SETTINGS
from tests.spark_cluster.test_cluster import SOURCES

PIPELINE = """
name = "copy"
[source]
topic = "{topic}"
max_rows = 40
[target]
topic = "{topic}.copy"
"""
CHECKED = '[deadletter]\ntopic = "{topic}.bad"\nchecks = {{ "too small" = "amout > 0" }}\n[target]'
REFUSED, INTERRUPTED = 5, 130


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def status(pipeline: Commands) -> dict[str, Any]:
    (row,) = json.loads(pipeline("status", "copy.toml", "-o", "json").out)
    return row


@pytest.fixture
def pipeline(tmp_path: Path, topic: str) -> Commands:
    (tmp_path / "copy.toml").write_text(PIPELINE.format(topic=topic))
    return Commands(tmp_path)


def home(pipeline: Commands) -> Path:
    return pipeline.folder / "headrace-pipelines" / "copy"


@pytest.mark.timeout(600)
def test_a_run_that_is_stopped_and_one_that_is_killed_go_on_and_each_record_is_there_once(
    pipeline: Commands, headrace_address: str, topic: str
) -> None:
    live = ("run", "copy.toml", "--trigger", "200ms", "-s", headrace_address, *SMALL)
    send(headrace_address, topic, numbered(0, 100))
    with pipeline.started(*live) as process:
        until(lambda: len(recorded(home(pipeline))) >= 1, "the first micro-batch")
        seen = status(pipeline)
        assert (seen["state"], seen["pid"]) == ("running", process.pid)
        assert seen["rows"] >= 40
        refused = pipeline(*live)
        assert refused.code == REFUSED
        assert f"copy runs already, as process {process.pid}" in refused.err
        assert pipeline("stop", "copy.toml", "--timeout", "180s").out == "copy has stopped\n"
        out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert "copy: stopped after" in out
    assert not (home(pipeline) / STOP).exists()
    assert status(pipeline)["state"] == "stopped"

    done = len(recorded(home(pipeline)))
    send(headrace_address, topic, numbered(100, 300))
    with pipeline.started(*live) as process:
        until(lambda: len(recorded(home(pipeline))) > done, "a micro-batch of the second run")
        process.kill()
    assert status(pipeline)["state"] == "killed"

    send(headrace_address, topic, numbered(300, 400))
    ended = pipeline("run", "copy.toml", "-s", headrace_address, "-o", "json", *SMALL)
    assert ended.code == 0, ended.err
    report = json.loads(ended.out)
    assert (report["name"], report["state"]) == ("copy", "done")
    lines = ended.err.splitlines()
    assert lines[0].startswith("starting Spark at local[2]")
    assert lines[-1] == "plots: headrace-pipelines/copy/report.html"
    progress = [line for line in lines if line.startswith("batch ")]
    assert all(" rows in " in line and "/s)" in line for line in progress)
    # Of the batch that the killed run had planned, and that is run again, Spark does not say what was latest.
    assert all("/s), lag " in line for line in progress[1:]) and progress[-1].endswith("lag 0")
    assert [line for line in lines[1:-1] if line not in progress] == [], "Java's own words are in its log"
    assert len(progress) == report["batches"]
    assert (home(pipeline) / "spark.log").exists()
    assert (home(pipeline) / "report.png").stat().st_size > 1000
    assert "<table>" in (home(pipeline) / "report.html").read_text()
    assert [record.value for record in read(headrace_address, f"{topic}.copy", 400)] == numbered(0, 400)
    assert status(pipeline)["lag"] == 0


@pytest.mark.timeout(300)
def test_a_run_that_still_starts_spark_is_seen_keeps_others_out_and_can_be_stopped(
    pipeline: Commands, headrace_address: str, topic: str
) -> None:
    send(headrace_address, topic, numbered(0, 10))
    live = ("run", "copy.toml", "--trigger", "200ms", "-s", headrace_address, *SMALL)
    with pipeline.started(*live) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("starting Spark at")
        assert status(pipeline)["state"] == "running"
        refused = pipeline(*live)
        assert refused.code == REFUSED
        assert refused.err == (
            f"headrace: copy runs already, as process {process.pid}; `headrace pipeline stop FILE` ends it\n"
        )
        assert pipeline("stop", "copy.toml", "--timeout", "180s").out == "copy has stopped\n"
        out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert "copy: stopped after" in out


@pytest.mark.timeout(300)
def test_the_command_writes_the_page_and_the_report_of_a_run_that_failed(
    pipeline: Commands, headrace_address: str, topic: str
) -> None:
    (pipeline.folder / "copy.toml").write_text(
        PIPELINE.format(topic=topic).replace("max_rows = 40", 'max_rows = 10\nformat = "json"\nschema = "id int"')
    )
    send(headrace_address, topic, [b'{"id": 1}'] * 10 + [b"{not json"])
    ended = pipeline("run", "copy.toml", "-s", headrace_address, *SMALL)
    assert ended.code not in (0, INTERRUPTED)
    assert "copy: failed after" in ended.err and "s; 10 rows in 1 batch (" in ended.err
    assert "plots: headrace-pipelines/copy/report.html" in ended.err
    assert "Traceback" not in ended.err
    assert "It failed: " in (home(pipeline) / "report.html").read_text()
    seen = status(pipeline)
    assert (seen["state"], seen["rows"]) == ("failed", 10)
    assert seen["error"] in ended.err

    (pipeline.folder / "copy.toml").write_text(
        (pipeline.folder / "copy.toml")
        .read_text()
        .replace("[target]", CHECKED.format(topic=topic))
        .replace('"copy"', '"checked"')
    )
    ended = pipeline("run", "copy.toml", "-s", headrace_address, *SMALL)
    assert ended.code not in (0, INTERRUPTED)
    begun, failed, plots, said = ended.err.splitlines()
    assert begun.startswith("starting Spark at") and failed.startswith("checked: failed after")
    assert plots.startswith("plots: ") and said.startswith("headrace: ") and "`amout` cannot be resolved" in said


@pytest.mark.timeout(600)
def test_a_delta_archive_needs_no_setting_and_takes_jars_that_are_named(
    tmp_path: Path, headrace_address: str, topic: str
) -> None:
    program("mvn")
    jars = jar_files(DELTA, ["io.delta"])
    pipeline = Commands(tmp_path, XDG_CACHE_HOME=str(jars[0].parents[3]))
    (tmp_path / "copy.toml").write_text(
        f'name = "copy"\n[source]\ntopic = "{topic}"\n[archive]\npath = "out"\nformat = "delta"\n'
    )
    elsewhere = [str(shutil.copy(jar, tmp_path / jar.name)) for jar in jars]
    for number, words in enumerate([(), ("--conf", f"spark.jars={','.join(elsewhere)}")]):
        send(headrace_address, topic, numbered(10 * number, 10 * number + 10))
        ended = pipeline("run", "copy.toml", "-s", headrace_address, *SMALL, *words)
        assert ended.code == 0, ended.err
        assert "copy: done after" in ended.out and "; 10 rows in 1 batch" in ended.out
        assert len(list((tmp_path / "out" / "_delta_log").glob("*.json"))) > number


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("beginning", ['topic = "{topic}"', 'path = "old"'])
def test_a_replay_that_is_killed_goes_on_and_each_record_is_there_once(
    tmp_path: Path, headrace_address: str, topic: str, beginning: str
) -> None:
    pipeline, server = Commands(tmp_path), ("-s", headrace_address, *SMALL)
    send(headrace_address, topic, numbered(0, 600))
    (tmp_path / "store.toml").write_text(
        f'name = "store"\n[source]\ntopic = "{topic}"\nmax_rows = 100\n[archive]\npath = "old"\ncompact_files = 0\n'
    )
    if "path" in beginning:
        stored = pipeline("run", "store.toml", *server)
        assert stored.code == 0, stored.err
    begins = f"[replay]\n{beginning.format(topic=topic)}\nrate = 60\n"
    (tmp_path / "copy.toml").write_text(f'name = "copy"\n{begins}[target]\ntopic = "{topic}.again"\n')
    with pipeline.started("run", "copy.toml", *server) as process:
        until(lambda: len(recorded(home(pipeline))) >= 1, "the first micro-batch")
        process.kill()
    assert status(pipeline)["state"] == "killed"
    ended = pipeline("run", "copy.toml", *server)
    assert ended.code == 0, ended.err
    found = [record.value for record in read(headrace_address, f"{topic}.again", 600)]
    assert sorted(found) == sorted(numbered(0, 600))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 0)])
def test_a_signal_ends_a_run_after_its_micro_batch(
    pipeline: Commands, headrace_address: str, topic: str, number: signal.Signals, code: int
) -> None:
    send(headrace_address, topic, numbered(0, 100))
    with pipeline.started("run", "copy.toml", "--trigger", "1s", "-s", headrace_address, *SMALL) as process:
        until(lambda: len(recorded(home(pipeline))) >= 1, "the first micro-batch")
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code, err
    assert "copy: stopped after" in out
    assert "Traceback" not in err
    assert status(pipeline)["state"] == "stopped"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_run_on_a_cluster_brings_the_program_to_workers_that_have_none(
    tmp_path: Path, headrace_address: str, topic: str
) -> None:
    program("java")
    (tmp_path / "copy.toml").write_text(PIPELINE.format(topic=topic))
    for name in ("python", "cluster"):
        (tmp_path / name).mkdir()
    python = stranger(tmp_path / "python")
    # The driver's own Python has the package; the tasks' has not.
    own = {"PYTHONPATH": str(SOURCES), "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    pipeline = Commands(tmp_path, PYSPARK_PYTHON=str(python), **own)
    conf = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    send(headrace_address, topic, numbered(0, 100))
    with running(tmp_path / "cluster") as cluster:
        ended = pipeline("run", "copy.toml", "-s", headrace_address, "--master", cluster.master, *conf)
    assert ended.code == 0, ended.err
    assert "copy: done after" in ended.out
    assert [record.value for record in read(headrace_address, f"{topic}.copy", 100)] == numbered(0, 100)
