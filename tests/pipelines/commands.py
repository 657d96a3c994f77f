"""`headrace pipeline …` in processes of their own, as a person runs it: in a folder of the test's, with a Java that
does not spend a short run on its best compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL = ("--master", "local[2]", "--conf", "spark.driver.memory=512m", "--conf", "spark.sql.shuffle.partitions=1")
LIMIT_S = 180.0  # many times what it takes on a machine that has nothing else to do
LOOK_S = 0.2


class Ended(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float


class Commands:
    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        self.env = kept | {"HOME": str(folder), "COLUMNS": "100", "JAVA_TOOL_OPTIONS": QUICK} | variables

    def __call__(self, *words: str) -> Ended:
        began = time.monotonic()
        with self.started(*words) as process:
            out, err = process.communicate(timeout=LIMIT_S)
        return Ended(process.returncode, out, err, time.monotonic() - began)

    @contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Killed at the end, if it still runs then."""
        command = [sys.executable, "-m", "headrace", "pipeline", *words]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()


def until(found: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not found():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(LOOK_S)
