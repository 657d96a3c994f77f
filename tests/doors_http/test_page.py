"""The page of this door: its session and its programs are run, and give what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from headrace.testing import Broker

PAGE = Path(__file__).parents[2] / "docs" / "doors" / "http.md"
ADDRESS = "127.0.0.1:8081"
TIME = re.compile(r'"ts_ms":\d{13}')
LIMIT_S = 60


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_session_gives_what_the_page_shows() -> None:
    (session,) = blocks("session")
    with Broker() as broker:
        for step in session.strip().split("\n\n"):
            command, _, shown = step.partition("\n")
            assert command.startswith("$ curl")
            ran = ["bash", "-c", command[2:].replace(ADDRESS, broker.http)]
            ended = subprocess.run(ran, capture_output=True, text=True, timeout=LIMIT_S)
            assert TIME.sub("TIME", ended.stdout.strip()) == TIME.sub("TIME", shown.strip()), command


PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize(("program", "printed"), PROGRAMS, ids=["client", "websocket"])
def test_each_program_prints_what_the_page_shows(program: str, printed: str) -> None:
    with Broker() as broker:
        ran = [sys.executable, "-c", program.replace(ADDRESS, broker.http)]
        ended = subprocess.run(ran, capture_output=True, text=True, timeout=LIMIT_S)
    assert (ended.stdout, ended.stderr) == (printed, "")


def test_every_route_of_the_document_is_on_the_page() -> None:
    text = PAGE.read_text()
    with Broker() as broker:
        paths = httpx.get(f"http://{broker.http}/openapi.json", timeout=LIMIT_S).json()["paths"]
    own = [path.partition("{")[0].rstrip("/") for path in paths if path != "/"]
    assert not [path for path in own if path not in text]
