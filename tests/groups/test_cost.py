"""The measurement of what a small request costs fails when its goal is missed."""

from __future__ import annotations

import subprocess
import sys

import pytest

RUN = """

import bench.requests as measured
source = measured.__loader__.get_source("bench.requests")
source = source.replace("GOAL_US = 30.0", "GOAL_US = {goal}").replace("ROUNDS, AT_ONCE, TRIES = 100, 50, 7",
    "ROUNDS, AT_ONCE, TRIES = 1, 2, 1")
exec(compile(source, "bench/requests.py", "exec"), {{"__name__": "__main__"}})
"""


@pytest.mark.parametrize(("goal", "word", "code"), [("1e9", "PASS", 0), ("0.0", "short", 1)])
def test_a_goal_that_is_missed_is_an_error(goal: str, word: str, code: int) -> None:
    ended = subprocess.run([sys.executable, "-c", RUN.format(goal=goal)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.count(word)) == (code, 3), ended.stderr
