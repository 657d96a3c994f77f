"""The Python that Spark runs: as Python itself, but with PySpark from where its compiled files are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark

from headrace.cli.spark_python import beside, lean

PACKAGE = Path(pyspark.__file__).parent
ARCHIVES = [
    *map(str, sorted((PACKAGE / "python" / "lib").glob("*.zip"))),
    *map(str, sorted((PACKAGE / "jars").glob("spark-core_*.jar"))),
]
LIMIT_S = 60


def run(*arguments: str, folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(ARCHIVES)}
    done = subprocess.run(
        [beside(), *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    return done.stdout


def test_the_program_is_installed_beside_python() -> None:
    assert beside() == str(Path(sys.executable).with_name("headrace-spark-python"))


def test_a_module_runs_as_with_python_but_pyspark_is_the_package(tmp_path: Path) -> None:
    assert len(ARCHIVES) == 3
    (tmp_path / "shown.py").write_text(
        "import json, sys, pyspark, py4j\n"
        "print(json.dumps([__name__, sys.argv[1:], sys.path, pyspark.__file__, py4j.__file__]))\n"
    )
    name, arguments, path, found, py4j = json.loads(run("-m", "shown", "one", "-m", folder=tmp_path))
    assert (name, arguments, path[0]) == ("__main__", ["one", "-m"], str(tmp_path))
    assert Path(found) == PACKAGE / "__init__.py" and ".zip" not in py4j
    assert not set(ARCHIVES) & set(path)


def test_other_arguments_are_pythons_own(tmp_path: Path) -> None:
    assert run("-c", "import sys; print(sys.argv)", "x", folder=tmp_path) == "['-c', 'x']\n"


def test_archives_stay_where_no_package_is(tmp_path: Path) -> None:
    home = tmp_path / "spark" / "python" / "lib"
    other = [str(home / "pyspark.zip"), str(home / "py4j-1-src.zip"), "/usr/lib/python3"]
    assert lean(other) == other
    alone = [str(tmp_path / "pyspark" / "python" / "lib" / "pyspark.zip"), str(tmp_path)]
    assert lean(alone) == alone, "a package without what it needs is not used"
    (tmp_path / "py4j").mkdir()
    assert lean([*alone, str(tmp_path / "pyspark" / "jars" / "spark-core.jar"), "/mine.zip"]) == [
        str(tmp_path),
        "/mine.zip",
    ]
