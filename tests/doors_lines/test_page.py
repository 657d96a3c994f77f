"""The page of the lines door: its sessions and programs are run, and say what they say there."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doors_lines.kit import Peer

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "doors" / "lines.md").read_text()
SESSIONS = re.findall(r"```session\n(.*?)```", PAGE, re.DOTALL)
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)
OWN = re.compile(r"msg_\d{13}_[0-9a-f]{8}")
TIME = re.compile(r"\b\d{10}\.\d+\b")


def test_there_are_sessions() -> None:
    assert len(SESSIONS) == 2


@pytest.mark.parametrize("session", SESSIONS)
def test_every_session_goes_as_it_is_told(lines: str, session: str) -> None:
    known: dict[str, str] = {}  # ids on the page, and what they are here
    with contextlib.ExitStack() as stack:
        peers: dict[str, Peer] = {}
        for line in filter(None, session.splitlines()):
            name, way, text = line[0], line[1], line[3:]
            if name not in peers:
                peers[name] = stack.enter_context(Peer(lines, greeted=False))
            if way == ">":
                peers[name].send(OWN.sub(lambda found: known[found[0]], text).encode() + b"\n")
                continue
            got = peers[name].line().decode()
            for shown, real in zip(OWN.findall(text), OWN.findall(got), strict=True):
                assert known.setdefault(shown, real) == real
            assert TIME.sub("", OWN.sub("", got)) == TIME.sub("", OWN.sub("", text))


def test_every_program_prints_what_stands_below_it(lines: str) -> None:
    assert len(PROGRAMS) == 2
    port = lines.rpartition(":")[2]
    for program, printed in PROGRAMS:
        code = program.replace("8888", port)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == (printed, "")


def test_every_command_of_the_page_is_one(lines: str) -> None:
    table = PAGE.partition("## Commands")[2].partition("##")[0]
    verbs = set(re.findall(r"^\| `([A-Z]+)", table, re.MULTILINE))
    assert verbs == {"PING", "QUIT", "PUB", "SUB", "SUBACK", "ACK", "HISTORY", "RANGE", "SINCE"}
    with Peer(lines) as peer:
        for verb in sorted(verbs - {"QUIT"}):
            assert not peer.ask(b"%b t" % verb.encode()).startswith(b"ERR unknown") or verb == "PING"
