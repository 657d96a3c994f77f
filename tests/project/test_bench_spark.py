"""The ruler of the Spark benchmark: CPU time that nobody's books have is counted, and goals are judged on medians."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from bench.processes import Process, Watch, processes
from bench.spark_table import Results, Sample, lines, write
from tests.support import wait_until

# As Spark's daemon does it: a child that is forked, works and ends, and that nobody waits for.
FORGETFUL = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    while time.process_time() < 1.0:
        pass
    os._exit(0)
time.sleep(600)
"""


def kind_of(process: Process) -> str:
    return process.name


def test_the_time_of_a_process_that_nobody_waited_for_is_counted() -> None:
    with Watch(kind_of) as watch, subprocess.Popen([sys.executable, "-c", FORGETFUL]) as parent:
        try:
            wait_until(lambda: sum(watch.cpu_s().values()) > 0.8)
            wait_until(lambda: parent.pid not in {one.parent for one in processes()})
            time.sleep(0.2)
            # The last look at it was at most a tenth of a second before its end.
            assert sum(watch.cpu_s().values()) > 0.8
        finally:
            parent.kill()
    assert watch.own_s > 0


def results(ours: float, tuned: float) -> Results:
    """Rows per CPU second."""
    found = Results({"machine": "two cores"})
    for noise in (0.9, 1.0, 1.3):
        for way, rate in (("headrace", ours), ("default", tuned / 2), ("tuned", tuned)):
            cpu_s = 1_000_000 / (rate * noise)
            split = {"JVM": cpu_s * 0.7, "Python": cpu_s * 0.2, "broker": cpu_s * 0.1}
            found.add("read_value", way, Sample(1_000_000, cpu_s * 2, split))
    return found


def test_a_goal_of_spark_is_judged_on_the_ratio_of_medians_to_the_tuned_connector() -> None:
    assert results(2.01e6, 1e6).verdict("read_value").startswith("PASS")
    assert results(1.99e6, 1e6).verdict("read_value").startswith("short")
    head, rates, shares, walls = lines(results(2.0e6, 1e6))
    assert rates[2] == "2.00 (1.80-2.60)" and rates[5:7] == ["4.00x", "2.00x"]
    assert shares[2] == "0.35 + 0.10 + 0.05" and walls[2].startswith("1.00")
    assert {len(line) for line in (rates, shares, walls)} == {len(head)}


def test_what_is_kept_has_the_form_that_pages_take(tmp_path: Path) -> None:
    data, picture = write(results(2e6, 1e6), tmp_path, "spark")
    kept = json.loads(data.read_text())
    assert kept["machine"] == {"machine": "two cores"} and kept["table"][0][0] == "work"
    assert picture.read_bytes().startswith(b"\x89PNG")
