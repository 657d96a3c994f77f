"""Ctrl-C at a terminal, as a person presses it: in a shell that stays, so that no hangup ends what a run leaves behind.
Whatever the moment, Java has ended when the prompt is back, and nobody has to read a stack."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.spark.jars import JarsMissing
from headrace.spark.pipelines.run import state_of
from headrace.spark.pipelines.session import own_session
from tests.pipelines.commands import LIMIT_S, LOOK_S, SMALL, Commands
from tests.pipelines.conftest import send

PIPELINE = """
name = "copy"
[source]
topic = "{topic}"
[target]
topic = "{topic}.copy"
"""
CTRL_C = b"\x03"
ENDED = "Z"  # how ps shows a process that nobody has asked after yet
OTHER_MOMENTS = [(0.5, 3), (1.0, 1), (2.0, 1), (3.0, 1), (4.0, 1), (4.0, 3), (6.0, 1), (6.0, 3), (8.0, 3)]
GONE_WITHIN_S = 10.0  # Spark's Python processes: they end when they see that Java has, and nobody waits for that
SHELL = ("bash", "--norc", "--noprofile", "-i")


class Terminal:
    """A shell with job control, and what it and its commands have shown."""

    def __init__(self, commands: Commands) -> None:
        self._ours, theirs = pty.openpty()
        self._name = os.ttyname(theirs).removeprefix("/dev/")
        sets_terminal = [
            sys.executable,
            "-c",
            "import os, pty, sys; os.login_tty(0); os.execvp(sys.argv[1], sys.argv[1:])",
        ]
        env = commands.env | {"PS1": ""}
        self._shell = subprocess.Popen(
            [*sets_terminal, *SHELL], cwd=commands.folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        self.shown = ""

    def type(self, words: bytes) -> None:
        os.write(self._ours, words)

    def read(self, seconds: float) -> None:
        if select.select([self._ours], [], [], seconds)[0]:
            self.shown += os.read(self._ours, 1 << 16).decode()

    def until(self, pattern: str) -> str:
        deadline = time.monotonic() + LIMIT_S
        while (found := re.search(pattern, self.shown)) is None:
            assert time.monotonic() < deadline, f"{pattern!r} did not come: {self.shown}"
            self.read(LOOK_S)
        return found[0]

    def wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.read(left)

    def processes(self) -> dict[int, str]:
        """All that run under this terminal, without the shell."""
        command = ["ps", "-t", self._name, "-o", "pid=,stat=,args="]
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        found = (line.split(maxsplit=2) for line in listed.stdout.splitlines())
        return {int(pid): args for pid, stat, args in found if int(pid) != self._shell.pid and stat[0] != ENDED}

    def close(self) -> None:
        for pid in self.processes():
            os.kill(pid, 9)
        self._shell.kill()
        self._shell.wait()
        os.close(self._ours)


def is_java(args: str) -> bool:
    return Path(args.split()[0]).name == "java"


@pytest.fixture
def terminal(tmp_path: Path, topic: str) -> Iterator[Terminal]:
    (tmp_path / "copy.toml").write_text(PIPELINE.format(topic=topic))
    terminal = Terminal(Commands(tmp_path))
    yield terminal
    terminal.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("seconds", "presses"),
    [(0.0, 1), (2.0, 3), (8.0, 1), *(pytest.param(*one, marks=pytest.mark.long) for one in OTHER_MOMENTS)],
)
def test_ctrl_c_while_spark_starts_or_works_leaves_no_java_and_shows_no_stack(
    terminal: Terminal, headrace_address: str, topic: str, tmp_path: Path, seconds: float, presses: int
) -> None:
    send(headrace_address, topic, [b"one"])
    words = [
        sys.executable,
        "-m",
        "headrace",
        "pipeline",
        "run",
        "copy.toml",
        "--trigger",
        "1s",
        "-s",
        headrace_address,
    ]
    terminal.type(f"{shlex.join([*words, *SMALL])}\n".encode())
    terminal.until("starting Spark at")
    terminal.wait(seconds)
    for _ in range(presses):
        terminal.type(CTRL_C)
        terminal.wait(LOOK_S)
    # Not in one line with the command: a press that comes when it is about to end would be the shell's, and end both.
    terminal.type(b"echo code' 'is $?\n")
    code = terminal.until(r"code is \d+")
    left = terminal.processes()
    assert [args for args in left.values() if is_java(args)] == [], terminal.shown
    deadline = time.monotonic() + GONE_WITHIN_S
    while left := terminal.processes():
        assert time.monotonic() < deadline, f"{left} stayed: {terminal.shown}"
        time.sleep(LOOK_S)
    assert code == "code is 130", terminal.shown
    assert "Traceback" not in terminal.shown and "ERROR" not in terminal.shown, terminal.shown
    assert len(re.findall("ending; Spark|finishing the", terminal.shown)) == 1, terminal.shown
    state = state_of(tmp_path / "headrace-pipelines" / "copy")
    assert state is not None and (state.state, state.error) == ("stopped", None)


def test_what_fails_to_start_after_ctrl_c_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """Maven, say, which fetches Delta's jars: it ends when its terminal's Ctrl-C does."""
    (tmp_path / "mvn").write_text("#!/bin/sh\nexit 130\n")
    (tmp_path / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def start(check: Callable[[], None]) -> None:
        with own_session("copy", "local[1]", {}, delta=True, log=tmp_path / "spark.log", check=check):
            pass

    with pytest.raises(JarsMissing):
        start(lambda: None)
    with pytest.raises(KeyboardInterrupt):
        start(_interrupted)
    assert spark.range(3).count() == 3, "a session that was there before has nothing to do with it"


def _interrupted() -> None:
    raise KeyboardInterrupt
