"""Exactly once on a cluster whose executors, driver or broker die by SIGKILL at each step of a batch: no row lost, none
twice."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from tests.clients.conftest import program
from tests.spark.conftest import topic  # noqa: F401 (a fixture)
from tests.spark.stage import EXPECTED, ROOT, Stage
from tests.spark.traps import FLUSHED, STEPS, VICTIMS, WORKERS, Trap
from tests.spark_cluster.cluster import running
from tests.spark_cluster.job import SETTINGS

pytestmark = pytest.mark.timeout(600)

PATH = {"spark.executorEnv.PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "spark.pyspark.python": sys.executable}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    program("java")
    with (
        running(tmp_path_factory.mktemp("cluster")) as cluster,
        Stage(tmp_path_factory.mktemp("stage"), cluster.master, {**SETTINGS, **PATH}) as found,
    ):
        found.cast.roots, found.cast.word = cluster.workers, "CoarseGrainedExecutorBackend"
        yield found


QUICK = (FLUSHED, WORKERS)
EVERY = [(step, victim) for step in STEPS for victim in VICTIMS if (step, victim) != QUICK]


@pytest.mark.parametrize(("step", "victim"), [QUICK, *(pytest.param(*one, marks=pytest.mark.long) for one in EVERY)])
def test_every_row_is_there_once_when_all_executors_or_the_driver_or_the_broker_die(
    stage: Stage,
    topic: str,  # noqa: F811
    step: str,
    victim: str,
) -> None:
    assert stage.play(topic, [Trap(step, victim, 1)]) == EXPECTED
    assert stage.traps.sprung() == [f"{step}: {victim}"]
