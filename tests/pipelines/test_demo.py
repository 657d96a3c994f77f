"""`make demo`: without Java it says so and ends well; with it, what comes out of the pipelines is what went in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing.served import ServedBroker
from tests.clients.conftest import program
from tools.demo_pipelines import pipelines

ROOT = Path(__file__).resolve().parents[2]


def test_without_java_the_demo_says_so_in_a_sentence_and_that_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    said: list[str] = []
    assert pipelines(ServedBroker(tmp_path), tmp_path, said.append) == 0
    (line,) = said
    assert line.startswith("no pipelines without Java: Spark needs Java 17 or newer")
    assert "install it (" in line


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_demo_ends_well() -> None:
    program("java")
    ended = subprocess.run([sys.executable, "-m", "tools.demo"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for words in ("nothing lost", "the same through all of them", "each counted once: yes", "orders sent: the same"):
        assert words in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr
