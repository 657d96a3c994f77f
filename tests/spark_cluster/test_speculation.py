"""Spark runs a slow task a second time and takes whichever ends first: what both wrote is there once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.conftest import program
from tests.spark.data import create, records
from tests.spark.stage import ROOT
from tests.spark_cluster.cluster import APART, HOST, running
from tests.spark_cluster.speculating import ROWS
from tests.spark_cluster.test_kills import PATH
from tests.support import serving

pytestmark = pytest.mark.timeout(300)
LIMIT_S = 240.0


def test_rows_of_a_task_that_runs_twice_at_once_are_there_once(tmp_path: Path) -> None:
    program("java")
    (tmp_path / "cluster").mkdir()
    with serving(tmp_path / "node") as node, running(tmp_path / "cluster", APART) as cluster:
        for topic in ("batch", "stream"):
            create(node.address, topic)
        search = f"{ROOT}{os.pathsep}{ROOT / 'src'}"
        env = {**os.environ, "PYTHONPATH": search, "SPARK_LOCAL_IP": HOST, "MORE": json.dumps(PATH)}
        said = subprocess.run(
            [sys.executable, "-m", "tests.spark_cluster.speculating", cluster.master, node.address, str(tmp_path)],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert said.returncode == 0, f"{said.stderr[-4000:]}\n{cluster.output()}"
        assert json.loads(said.stdout.splitlines()[-1]) == {"batch": ["0", "1"], "stream": ["0", "1"]}
        wanted = sorted((b"%d" % number, b"made %d" % number) for number in range(ROWS))
        for topic in ("batch", "stream"):
            assert sorted((row[0], row[1]) for row in records(node.address, topic)) == wanted
