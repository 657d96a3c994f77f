"""The simulation itself, run on a toy broker: it accepts what keeps its promises and finds what does not."""

import functools
import random

import pytest

from headrace.testing.faults import KINDS, plan
from headrace.testing.simulation import Options, SimulationFailed, run
from tests.testing.toy import BUGS, ToyMachine

OPTIONS = Options(kinds="kill,power,stop,reset,drop,cut", duration_s=3.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_broker_that_keeps_its_promises_passes(seed):
    result = run(seed, ToyMachine, OPTIONS)
    assert result.acknowledged > 10 and result.reads > 10


@pytest.mark.parametrize("bug", BUGS)
def test_a_broken_promise_is_found_within_some_seeds(bug):
    for seed in range(40):
        try:
            run(seed, functools.partial(ToyMachine, bug=bug), OPTIONS)
        except SimulationFailed:
            return
    pytest.fail(f"{bug!r} was not found")


def test_a_failure_names_the_command_that_replays_it():
    with pytest.raises(SimulationFailed) as failure:
        run(3, functools.partial(ToyMachine, bug="invent"), Options(duration_s=2.0, kinds="kill"))
    assert str(failure.value).endswith(
        "replay: python -m headrace.testing.simulation --seed 3 --duration-s 2.0 --kinds kill"
    )
    assert failure.value.last_lines


def test_a_plan_draws_every_kind_of_fault_sooner_or_later():
    drawn = {fault.kind for seed in range(50) for fault in plan(random.Random(seed), 10.0, KINDS, 6)}
    assert drawn == set(KINDS)
