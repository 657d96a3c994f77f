"""Exactly once while driver, tasks and broker die by SIGKILL, each at any moment and many times: no row lost, none
twice. A small engine stands where Spark stands (engine.py), so that a hundred runs take minutes; what happens at each
single step, on Spark itself, is test_steps.py's."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

import headrace
from headrace.testing.served import ServedBroker
from tests.spark.data import create, records
from tests.spark.engine import BATCHES, ROWS, Plan
from tests.spark.stage import KAFKA_ONLY

pytestmark = pytest.mark.timeout(600)

EXPECTED = Counter(b"%d" % row for row in range(BATCHES * ROWS))
KILLS = 6  # of the broker: on a busy machine it would otherwise do nothing but start
ROOT = Path(__file__).resolve().parents[2]


def history(folder: Path, seed: int, *, fault: str = "", kill_broker: bool = True) -> Counter[bytes | None]:
    """What a reader of committed records sees in the end."""
    chance = random.Random(seed)
    (folder / "engine").mkdir()
    with ServedBroker(folder / "node", *KAFKA_ONLY) as broker:
        create(broker.address, "t", 2)
        plan = Plan(
            broker.address, "t", str(folder / "engine"), seed, (0.25 if fault else 0.1) + 0.1 * chance.random(), fault
        )
        over = threading.Event()
        killer = threading.Thread(target=murder, args=(broker, chance, over))
        if kill_broker:
            killer.start()
        try:
            run(plan)
        finally:
            over.set()
            if kill_broker:
                killer.join()
        settle(broker.address)
        return Counter(row[1] for row in records(broker.address, "t"))


def run(plan: Plan) -> None:
    command = [sys.executable, "-m", "tests.spark.engine", json.dumps(msgspec.to_builtins(plan))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-5000:]


def murder(broker: ServedBroker, chance: random.Random, over: threading.Event) -> None:
    for _ in range(KILLS):
        if over.wait(0.3 + 2 * chance.random()):
            return
        broker.kill()
        broker.start()


def settle(address: str) -> None:
    """Until no transaction is open: what was decided is being carried out."""
    deadline = time.monotonic() + 90
    with headrace.connect(address) as client:
        while any(not one.state.startswith(("Complete", "Empty")) for one in client.admin.list_transactions()):
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.parametrize("seed", [0, 3])
def test_every_row_is_there_once_whoever_dies(tmp_path: Path, seed: int) -> None:
    assert history(tmp_path, seed) == EXPECTED


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 200))
def test_every_row_is_there_once_whoever_dies_in_a_hundred_runs(tmp_path: Path, seed: int) -> None:
    assert history(tmp_path, seed) == EXPECTED


@pytest.mark.parametrize("fault", ["no-ledger", "no-transaction"])
def test_a_sink_without_its_ledger_or_its_transactions_is_found_out(tmp_path: Path, fault: str) -> None:
    for seed in range(10):
        (tmp_path / str(seed)).mkdir()
        found = history(tmp_path / str(seed), seed, fault=fault, kill_broker=False)
        if found != EXPECTED:
            assert set(found) == set(EXPECTED)  # rows twice, none missing
            return
    pytest.fail("nothing was found")
