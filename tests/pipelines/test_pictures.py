"""The page of a run: with its plots, whatever is installed, and of a run that failed too."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

import headrace.spark
from headrace.cli import pipeline as command
from headrace.spark import pipelines
from headrace.spark.pipelines import preflight
from headrace.spark.pipelines.pictures import draw, page
from headrace.spark.pipelines.progress import Progress, recorded
from headrace.spark.pipelines.run import RUN, PipelineFailed, Report, RunState
from tests.pipelines.conftest import Run, order_at, send

SEEN = [
    Progress(
        batch=number, at="2026-01-31T00:00:00Z", rows=10 * number, seconds=0.5, rows_per_s=20.0 * number, lag=None,
        state_rows=0, state_bytes=0, late=0, watermark=None,
    )
    for number in range(3)
]  # fmt: skip


def plots(text: str) -> list[ElementTree.Element]:
    parts = text.split("<svg")[1:]
    return [ElementTree.fromstring(f"<svg{part.partition('</svg>')[0]}</svg>") for part in parts]


def test_the_page_has_its_plots_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert draw("p", SEEN, tmp_path) == [tmp_path / "report.html"]
    found = plots((tmp_path / "report.html").read_text())
    assert len(found) == 4
    line = found[0].find("polyline")
    assert line is not None and line.attrib["points"] == "20.0,130.0 230.0,75.0 440.0,20.0"


def test_with_matplotlib_there_is_a_picture_too(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert draw("p", SEEN, tmp_path) == [tmp_path / "report.html", tmp_path / "report.png"]
    assert (tmp_path / "report.png").stat().st_size > 1000


def test_the_page_of_a_run_that_failed_says_why() -> None:
    assert "<strong>It failed: 1 &lt; 2</strong>" in page("p", [], "1 < 2")
    assert "It failed" not in page("p", SEEN)


@pytest.mark.timeout(600)
def test_a_run_that_failed_has_a_report_of_what_it_had_done(
    headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    send(headrace_address, topic, [order_at(0, number) for number in range(10)] + [b"{not json"])
    with pytest.raises(PipelineFailed) as failed:
        run(source={"max_rows": 10}, archive={"path": str(tmp_path / "out"), "time": "at"})
    assert failed.value.report is not None
    assert (failed.value.report.state, failed.value.report.rows) == ("failed", 10)
    assert sum(one.rows for one in recorded(tmp_path / "p")) == 10


class Stoppable:
    """All that the command asks of a session whose run is not Spark's."""

    def stop(self) -> None: ...


def test_the_command_writes_the_page_and_the_report_of_a_run_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        state = RunState(name="p", pid=1, state="failed", began=0.0, ended=1.0, error="the disk is full")
        (tmp_path / RUN).write_bytes(msgspec.json.encode(state))
        error = PipelineFailed("the disk is full")
        error.report = Report(name="p", state="failed", seconds=1.0, batches=2, rows=7, late=0, rows_per_s=7.0)
        raise error

    monkeypatch.setattr(headrace.spark, "check_java", lambda: None)
    monkeypatch.setattr(preflight, "check_ready", lambda _: None)
    monkeypatch.setattr(pipelines, "session", lambda *_, **__: Stoppable())
    monkeypatch.setattr(pipelines, "run", fail)
    settings = pipelines.parse('name = "p"\n[source]\ntopic = "t"\n[target]\ntopic = "u"\n')
    with pytest.raises(PipelineFailed, match="the disk is full"):
        command._run(msgspec.structs.replace(settings, folder=str(tmp_path)), "local[1]", {}, plots=True)
    said = capsys.readouterr().err
    assert "p: failed after 1.0 s; 7 rows in 2 batches" in said
    assert f"plots: {tmp_path / 'report.html'}" in said
    assert "It failed: the disk is full" in (tmp_path / "report.html").read_text()
