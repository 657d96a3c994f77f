"""The page of a run: with its plots, whatever is installed, and of a run that failed too."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headrace.spark.pipelines.pictures import draw, page
from headrace.spark.pipelines.progress import History, LeftOut, Progress, recorded
from headrace.spark.pipelines.run import PipelineFailed
from tests.pipelines.conftest import Run, order_at, send

SEEN = History([
    Progress(
        batch=number, at="2026-01-31T00:00:00Z", rows=10 * number, seconds=0.5, rows_per_s=20.0 * number, lag=None,
        state_rows=0, state_bytes=0, late=0, watermark=None,
    )
    for number in range(3)
])  # fmt: skip


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
    assert "<strong>It failed: 1 &lt; 2</strong>" in page("p", History([]), "1 < 2")
    assert "It failed" not in page("p", SEEN)


def test_the_page_counts_what_is_written_down_no_more() -> None:
    assert "<p>30 rows in 3 batches.</p>" in page("p", SEEN)
    assert "<p>1,030 rows in 103 batches.</p>" in page("p", History(SEEN.seen, LeftOut(100, 1000)))


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
