"""Exactly once on real Spark, while workers, the driver and the broker die by SIGKILL at each step of a batch: no row
lost, none twice, though a shuffle gives each run its rows in another order. And a ledger that has a fault is found out
by the same plays."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator

import pytest

from tests.clients.conftest import program
from tests.spark.driver import Query
from tests.spark.mortal_node import LEDGER_FIRST, LEDGER_LAST, NO_LEDGER, NO_REFUSAL
from tests.spark.stage import BATCHES, EXPECTED, Stage
from tests.spark.traps import (
    ANSWER,
    ANSWERED,
    BROKER,
    DRIVER,
    FIRST_MARKER,
    FLUSHED,
    LAST_MARKER,
    SENT,
    STEPS,
    SYNCED,
    TIME,
    VICTIMS,
    WORKERS,
    WRITING,
    Trap,
)

pytestmark = pytest.mark.timeout(600)

EVERY = [(step, victim) for step in STEPS for victim in VICTIMS]
ROUNDS = 5  # so often each step is the end of each
PROMISED = 100  # runs, at the least
AT_LEAST_ONCE = "at-least-once"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    program("java")
    with Stage(tmp_path_factory.mktemp("stage")) as found:
        yield found


def test_there_are_as_many_runs_as_are_promised() -> None:
    assert ROUNDS * len(EVERY) >= PROMISED


def traps_of(seed: int) -> list[Trap]:
    """One for the step and the victim whose turn it is; often another, at another step."""
    chance = random.Random(seed)
    step, victim = EVERY[seed % len(EVERY)]
    traps = [Trap(step, victim, chance.randrange(BATCHES))]
    if chance.random() < 0.5:
        other = chance.choice([one for one in STEPS if one != step])
        traps.append(Trap(other, chance.choice([WORKERS, BROKER]), chance.randrange(BATCHES)))
    return traps


def assert_exact(stage: Stage, name: str, traps: list[Trap]) -> None:
    assert stage.play(name, traps) == EXPECTED
    assert sorted(stage.traps.sprung()) == sorted(f"{trap.step}: {trap.victim}" for trap in traps)


@pytest.mark.parametrize(
    ("step", "victim"),
    [
        (WRITING, WORKERS),
        (FLUSHED, BROKER),
        (SENT, WORKERS),
        (SENT, TIME),  # nobody dies, but the members of the commit have timed out
        (SYNCED, BROKER),
        (FIRST_MARKER, BROKER),
        (LAST_MARKER, WORKERS),
        (ANSWER, BROKER),
        (ANSWERED, DRIVER),
    ],
)
def test_every_row_is_there_once_whoever_dies_at_a_step(stage: Stage, topic: str, step: str, victim: str) -> None:
    assert_exact(stage, topic, [Trap(step, victim, 1)])


def test_a_broker_that_dies_when_the_query_is_done_is_read_in_its_next_life(
    stage: Stage, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a trap at a marker of the last batch."""
    run = stage._run

    def last_breath(query: Query, deadline: float) -> str:
        told = run(query, deadline)
        os.kill(stage.cast.broker, signal.SIGKILL)
        return told

    monkeypatch.setattr(stage, "_run", last_breath)
    assert stage.play(topic) == EXPECTED


@pytest.mark.long
@pytest.mark.parametrize("seed", range(ROUNDS * len(EVERY)))
def test_every_row_is_there_once_whoever_dies_at_any_step(stage: Stage, topic: str, seed: int) -> None:
    assert_exact(stage, topic, traps_of(seed))


@pytest.mark.parametrize(
    ("fault", "guarantee", "step", "victim", "is_lost"),
    [
        (NO_LEDGER, "exactly-once", ANSWERED, WORKERS, False),
        (LEDGER_FIRST, "exactly-once", SYNCED, BROKER, True),
        (LEDGER_LAST, "exactly-once", SYNCED, BROKER, False),
        (NO_REFUSAL, "exactly-once", SENT, TIME, True),
        ("no transactions", AT_LEAST_ONCE, FLUSHED, WORKERS, False),
    ],
)
def test_a_fault_that_is_planted_is_found_out(
    stage: Stage, topic: str, fault: str, guarantee: str, step: str, victim: str, is_lost: bool
) -> None:
    found = stage.play(topic, [Trap(step, victim)], fault=fault, guarantee=guarantee)
    assert len(stage.traps.sprung()) == 1
    lost, twice = EXPECTED - found, found - EXPECTED
    assert bool(lost) == is_lost and bool(twice) != is_lost
