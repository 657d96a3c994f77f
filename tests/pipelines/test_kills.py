"""`headrace pipeline run` of each kind, killed with SIGKILL in the middle, more than once: in the end there is what a
run that nobody touched leaves."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow.dataset as ds
import pytest

from headrace.spark.pipelines.progress import recorded
from tests.pipelines.commands import LIMIT_S, SMALL, Commands
from tests.pipelines.conftest import SCHEMA, order_at, send
from tests.pipelines.test_restarts import committed

KILLS: Final = 3  # each costs some five of the 28 micro-batches: none finds the run at its end
LOOK_S: Final = 0.02  # less than a micro-batch takes
FAR: Final = 100_000
HEAD: Final = """
name = "{name}"
[source]
topic = "{topic}"
format = "json"
schema = "{schema}"
max_rows = 40
"""
OUT: Final = '[target]\ntopic = "{topic}.{name}"\n'
KINDS: Final = {
    "archive": '[archive]\npath = "{name}.files"\ntime = "at"\ncompact_files = 3\n',
    "rollup": '[rollup]\ntime = "at"\nwindow = "10s"\nlate = "60s"\nby = ["country"]\n'
    'values = {{ n = "count", sum = "sum(amount)" }}\n' + OUT,
    "dedup": '[dedup]\nby = ["id"]\ntime = "at"\nwithin = "1 hour"\n' + OUT,
    "order": '[order]\ntime = "at"\nlate = "60s"\n' + OUT,
    "deadletter": '[deadletter]\ntopic = "{topic}.{name}.bad"\nchecks = {{ "too little" = "amount > 9" }}\n' + OUT,
}


def values() -> list[bytes]:
    """Out of order by less than a minute, some twice, some no JSON; the last lets go of all before."""
    chance = random.Random(7)
    seconds = sorted(range(1000), key=lambda second: second + chance.randrange(40))
    found = []
    for second in seconds:
        found.append(order_at(second, second, "ch" if second % 3 else "de"))
        if second % 11 == 0:
            found.append(found[-1])
    return [*found, order_at(FAR, FAR)]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_killed_ends_as_one_that_is_not(
    kind: str, tmp_path: Path, headrace_address: str, topic: str
) -> None:
    pipeline, server, chance = Commands(tmp_path), ("-s", headrace_address, *SMALL), random.Random(kind)
    given = values()
    if kind == "deadletter":
        given[50::60] = [b"{nonsense"] * len(given[50::60])
    send(headrace_address, topic, given)
    for name in ("whole", "killed"):
        text = (HEAD + KINDS[kind]).format(name=name, topic=topic, schema=SCHEMA)
        (tmp_path / f"{name}.toml").write_text(text)
    ended = pipeline("run", "whole.toml", *server)
    assert ended.code == 0, ended.err
    home, deaths = tmp_path / "headrace-pipelines" / "killed", 0
    for _ in range(KILLS):
        done = len(recorded(home))
        with pipeline.started("run", "killed.toml", *server) as process:
            assert reached(home, done + 2, process, LIMIT_S), "two micro-batches did not come"
            reached(home, done + 4, process, chance.random())
            process.kill()
            deaths += process.wait() == -signal.SIGKILL
    assert deaths == KILLS, "it ended before it could be killed"
    ended = pipeline("run", "killed.toml", *server)
    assert ended.code == 0, ended.err
    look = results(kind, tmp_path, headrace_address, topic)
    whole, killed = look("whole"), look("killed")
    assert whole and killed == whole


def reached(home: Path, count: int, process: subprocess.Popen[str], limit_s: float) -> bool:
    """Waits until a run has done so many micro-batches, and no longer than that: a death that is to come after a while
    comes before the run has gone far, however quick the machine is."""
    deadline = time.monotonic() + limit_s
    while len(recorded(home)) < count and process.poll() is None and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    return len(recorded(home)) >= count


def results(kind: str, folder: Path, address: str, topic: str) -> Callable[[str], object]:
    """What a pipeline left; in its order where that is promised."""

    def archived(name: str) -> object:
        rows = ds.dataset(folder / f"{name}.files", format="parquet", partitioning="hive").to_table().to_pylist()
        return sorted(
            (row["_offset"], row["id"], row["country"], row["amount"], row["at"], row["date"]) for row in rows
        )

    def written(name: str) -> object:
        found = [record.value or b"" for record in committed(address, f"{topic}.{name}")]
        if kind == "deadletter":
            bad = committed(address, f"{topic}.{name}.bad")
            return sorted(found), sorted((record.value or b"", record.headers) for record in bad)
        if kind == "order":
            times = [json.loads(value)["at"] for value in found]
            assert times == sorted(times)
        return found if kind == "order" else sorted(found)

    return archived if kind == "archive" else written
