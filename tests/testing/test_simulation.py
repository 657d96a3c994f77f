import functools
import os
import subprocess
import sys

import pytest

from headrace.testing.faults import KINDS, plan
from headrace.testing.simulation import Options, SimulationFailed, run
from tests.testing.toy import BUGS, ToyMachine

OPTIONS = Options(kinds=("kill", "power", "stop", "reset", "drop", "cut"), duration_s=4)


@pytest.mark.parametrize("seed", range(6))
def test_a_broker_that_keeps_its_promises_passes(seed):
    result = run(seed, ToyMachine, OPTIONS)
    assert result.acknowledged > 10 and result.reads > 10


@pytest.mark.parametrize("bug", BUGS)
def test_a_broken_promise_is_found_within_some_seeds(bug):
    for seed in range(40):
        try:
            run(seed, functools.partial(ToyMachine, bug=bug), OPTIONS)
        except SimulationFailed as failure:
            assert f"--seed {seed}" in str(failure)
            return
    pytest.fail(f"{bug!r} was not found")


def test_different_seeds_give_different_runs():
    assert len({run(seed, ToyMachine, OPTIONS).trace_hash for seed in range(4)}) == 4


def test_the_same_seed_gives_the_identical_trace_in_two_interpreters_with_different_hash_seeds():
    script = (
        "from tests.testing.test_simulation import OPTIONS, ToyMachine, run\n"
        "print([run(seed, ToyMachine, OPTIONS) for seed in (1, 2)])"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": os.pathsep.join(["src", ".", *sys.path]),
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] != ""


def test_a_plan_draws_every_kind_of_fault_sooner_or_later():
    import random

    drawn = {fault.kind for seed in range(50) for fault in plan(random.Random(seed), 10.0, KINDS, 6)}
    assert drawn == set(KINDS)
