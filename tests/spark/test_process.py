"""What the Python processes of a session of ours are spared, and nobody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.conftest import program

LIMIT_S = 240  # a Java of its own, on a machine that does other things too
pytestmark = pytest.mark.timeout(LIMIT_S)

SPARED = """
import gc, sys
from headrace.spark import process
found = []
for name in ("decimal", "decimal", "sqlite3"):
    __import__(name)
    process.keep_memory()
    process.spare_imports()
    found.append(gc.get_freeze_count())
print(*found)
"""

SESSION = """
import json, sys
import headrace.spark
from tests.spark.conftest import SETTINGS

def where(tables):
    import os, pyarrow as pa, pyspark
    for table in tables:
        yield pa.record_batch({"file": [pyspark.__file__], "kept": [os.environ["SPARK_REUSE_WORKER"]]})

spark = headrace.spark.session("lean", "local[1]", **SETTINGS)
rows = spark.range(100).selectExpr("cast(id as string) key", "cast(id as string) value")
headrace.spark.write(rows, sys.argv[1], sys.argv[2], writeId="once")
read = headrace.spark.read(spark, sys.argv[1], sys.argv[2])
(row,) = spark.range(1).repartition(1).mapInArrow(where, "file string, kept string").collect()
print(json.dumps([sorted(int(one.value) for one in read.collect()), row.file, row.kept]))
spark.stop()
"""


PIPELINE = """
import sys
from pathlib import Path
from headrace.spark import pipelines
from tests.spark.conftest import SETTINGS

def where(tables):
    import pyarrow as pa, pyspark
    for table in tables:
        yield pa.record_batch({"file": [pyspark.__file__]})

spark = pipelines.session("lean", "local[1]", SETTINGS, log=Path(sys.argv[1]))
print(spark.range(1).repartition(1).mapInArrow(where, "file string").collect()[0].file)
spark.stop()
"""


def run(program_text: str, *arguments: str, **environment: str) -> str:
    known = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [sys.executable, "-c", program_text, *arguments],
        env={**known, **environment},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_imports_are_left_out_of_the_search_for_garbage_in_sparks_processes_only() -> None:
    first, again, more = map(int, run(SPARED, SPARK_REUSE_WORKER="1").split())
    assert 10_000 < first == again < more
    assert run(SPARED).split() == ["0", "0", "0"]


def test_a_session_of_ours_runs_workers_that_find_pyspark_compiled(headrace_address: str, topic: str) -> None:
    program("java")
    values, found, kept = json.loads(run(SESSION, headrace_address, topic).splitlines()[-1])
    assert values == list(range(100))
    assert ".zip" not in found and kept == "1"


def test_the_session_of_a_pipeline_that_is_run_from_the_terminal_does_so_too(tmp_path: Path) -> None:
    program("java")
    assert ".zip" not in run(PIPELINE, str(tmp_path / "spark.log")).splitlines()[-1]
