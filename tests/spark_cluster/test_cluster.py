"""Spark as a cluster: what runs on one machine's threads need not run where each task has a process, and a machine, of
its own. One job does everything once; the tests look at what it saw and what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.records import kernel
from headrace.spark.jars import kafka_jars
from headrace.spark.pipelines.session import SHIPPED
from tests.clients.conftest import program
from tests.spark.data import create, fill, records
from tests.spark_cluster.cluster import running, stranger
from tests.support import serving

pytestmark = pytest.mark.timeout(600)  # the first run fetches jars
SOURCES = Path(__file__).resolve().parents[2] / "src"
JOB = Path(__file__).with_name("job.py")
JOB_LIMIT_S = 500.0
COUNT = 1_000
FORMS = ("headrace", "kafka")


class Done(NamedTuple):
    address: str
    told: dict[str, Any]
    python: Path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    program("java")
    kafka_jars()
    python = stranger(tmp_path_factory.mktemp("python"))
    with serving(tmp_path_factory.mktemp("node")) as node, running(tmp_path_factory.mktemp("cluster")) as cluster:
        create(node.address, "given")
        fill(node.address, "given", COUNT)
        for form in FORMS:
            create(node.address, f"written-{form}")
            create(node.address, f"copied-{form}")
        # The driver's own Python has the package; the tasks' has not.
        env = {**os.environ, "PYSPARK_PYTHON": str(python), "PYTHONPATH": str(SOURCES), "SPARK_LOCAL_IP": "127.0.0.1"}
        env["PYSPARK_DRIVER_PYTHON"] = sys.executable
        checkpoints = tmp_path_factory.mktemp("checkpoints")
        said = subprocess.run(
            [sys.executable, str(JOB), cluster.master, node.address, str(checkpoints)],
            cwd=checkpoints,
            env=env,
            capture_output=True,
            text=True,
            timeout=JOB_LIMIT_S,
        )
        assert said.returncode == 0, f"{said.stderr[-4000:]}\n{cluster.output()}"
        yield Done(node.address, json.loads(said.stdout.splitlines()[-1]), python)


def test_the_workers_get_the_package_with_its_kernels_from_the_driver(done: Done) -> None:
    asked = subprocess.run([str(done.python), "-c", "import headrace"], capture_output=True, text=True, env={})
    assert "ModuleNotFoundError" in asked.stderr
    for folder, file, is_native in done.told["where"]:
        assert Path(file).resolve() != SOURCES / "headrace" / "__init__.py"
        assert SHIPPED in file and Path(file).is_relative_to(folder)
        assert is_native == kernel.NATIVE, "as the driver has them"


def test_both_workers_took_part(done: Done) -> None:
    folders = {Path(folder).parents[1].name for folder, _, _ in done.told["where"]}
    assert folders == {"worker-0", "worker-1"}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_read_equals_what_was_produced(done: Done, form: str) -> None:
    def text(value: bytes | None) -> str | None:
        return None if value is None else value.hex().upper()

    wanted = [
        [text(key), text(value), topic, partition, offset, kind, at, [[k, text(v)] for k, v in headers] or None]
        for key, value, topic, partition, offset, at, kind, headers in records(done.address, "given")
    ]
    seen = done.told["seen"][form]
    assert len(seen) == COUNT and seen == wanted


@pytest.mark.parametrize("form", FORMS)
def test_each_row_that_is_written_is_there_once(done: Done, form: str) -> None:
    found = sorted((row[0], row[1]) for row in records(done.address, f"written-{form}"))
    assert found == sorted((b"%d" % number, b"made %d" % number) for number in range(1_000))


@pytest.mark.parametrize("form", FORMS)
def test_a_query_copies_a_topic_once(done: Done, form: str) -> None:
    def sorted_rows(topic: str) -> list[tuple[bytes | None, bytes | None]]:
        return sorted(((row[0], row[1]) for row in records(done.address, topic)), key=repr)

    assert sorted_rows(f"copied-{form}") == sorted_rows("given")


def test_sparks_own_connector_reads_what_our_sink_committed(done: Done) -> None:
    assert done.told["ours by the connector"] == sorted(f"made {number}" for number in range(1_000))
