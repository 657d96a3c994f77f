"""`make demo`: nothing is lost, and it ends well; without Java it says what is missing; with it, what comes out of the
pipelines is what went in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.clients.conftest import program

ROOT = Path(__file__).resolve().parents[2]
TOLD = ("nothing lost", "the same through all of them", "Backed up the data folder")


def test_without_java_the_demo_says_so_in_a_sentence_and_all_else_of_it_ends_well() -> None:
    told = demo(os.environ | {"JAVA_HOME": "/nowhere"})
    for words in TOLD:
        assert words in told
    last = told.splitlines()[-1].strip()
    assert last.startswith("no pipelines without Java: Spark needs Java 17 or newer")
    assert "install it (" in last


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_demo_ends_well() -> None:
    program("java")
    told = demo(os.environ)
    for words in (*TOLD, "each counted once: yes", "orders sent: the same"):
        assert words in told


def demo(variables: Mapping[str, str]) -> str:
    command = [sys.executable, "-m", "tools.demo"]
    ended = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
    return ended.stdout
