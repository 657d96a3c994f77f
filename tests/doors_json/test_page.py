"""The page of the json door: its sessions and programs are run, and say what they say there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from headrace.wire.json.ranges import NAMES
from tests.doors_json.kit import connect, reply

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "doors" / "json.md").read_text()
SESSIONS = re.findall(r"```session\n(.*?)```", PAGE, re.DOTALL)
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)


def test_every_session_goes_as_it_is_told(door: str) -> None:
    single, _, kept = SESSIONS
    exchanges = re.findall(r"^> (.*)\n< (.*)$", single, re.MULTILINE)
    assert len(exchanges) == len(single.splitlines()) / 2 == 10
    for sent, told in exchanges:
        assert reply(door, sent.encode()) == told.encode()
    with connect(door) as connection, connection.makefile("rb") as lines:
        for line in kept.splitlines():
            text = line[5:].strip().encode() + b"\n"
            if line.startswith("kept>"):
                connection.sendall(text)
            else:
                assert lines.readline() == text


def test_the_session_with_ranges_goes_as_it_is_told_but_for_the_times(door: str) -> None:
    _, session, _ = SESSIONS
    exchanges = re.findall(r"^> (.*)\n< (.*)$", session, re.MULTILINE)
    assert len(exchanges) == len(session.splitlines()) / 2 == 10
    for sent, told in exchanges:
        assert timeless(reply(door, sent.encode())) == timeless(told.encode())


def timeless(reply: bytes) -> bytes:
    return re.sub(rb'"ts_ms": \d{13}', b'"ts_ms": 0', reply)


def test_every_key_of_a_range_is_on_the_page() -> None:
    ours = PAGE[PAGE.index("## Ranges") : PAGE.index("## Keeping the connection")]
    for name in NAMES:
        assert f"`{name}`" in ours


def test_every_program_prints_what_stands_below_it(door: str) -> None:
    assert len(PROGRAMS) == 3
    port = door.rpartition(":")[2]
    for program, printed in PROGRAMS:
        code = program.replace("9000", port)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == (printed, "")
