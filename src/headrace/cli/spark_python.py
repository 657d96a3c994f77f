"""`headrace-spark-python`: the Python that Spark runs, without Spark's archives in its path.

Spark puts its own Python code into the path of every process as zip files, and one of its jars besides. Python keeps
no compiled code for what is in a zip, so that each process compiles all of PySpark again: 0.6 CPU seconds. Where
PySpark is installed as a package the same files stand beside the archives, and are taken from there.

`headrace.spark.session` names this program as PYSPARK_PYTHON for a Spark on this machine. It imports nothing of
Headrace: that is for whoever runs in it.
"""

from __future__ import annotations

import os
import sys
from typing import Final

NAME: Final = "headrace-spark-python"
ARCHIVE: Final = os.path.join(os.sep, "pyspark", "python", "lib", "pyspark.zip")
FOLDERS: Final = (os.path.join("pyspark", "python", "lib"), os.path.join("pyspark", "jars"))


def beside() -> str:
    """This program as it is installed with the Python that runs; that Python itself where it is not."""
    found = os.path.join(os.path.dirname(sys.executable), NAME)
    return found if os.access(found, os.X_OK) else sys.executable


def lean(path: list[str]) -> list[str]:
    """The path without the archives of a PySpark that stands in it as a package, with what it needs."""
    homes = {one.removesuffix(ARCHIVE) for one in path if one.endswith(ARCHIVE)}
    whole = [home for home in homes if home in path and os.path.isdir(os.path.join(home, "py4j"))]
    archives = {os.path.join(home, folder) for home in whole for folder in FOLDERS}
    return [one for one in path if os.path.dirname(one) not in archives]


def main() -> None:
    """As `python` with these arguments; Spark gives `-m MODULE` and what that takes."""
    if len(sys.argv) < 3 or sys.argv[1] != "-m":
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606 (what was asked for)
    import runpy

    module = sys.argv[2]
    del sys.argv[:2]
    sys.path[0] = os.getcwd()  # as with -m; it was the folder of this program
    sys.path[:] = lean(sys.path)
    sys.path_importer_cache.clear()  # else Python goes on reading the archives
    runpy.run_module(module, run_name="__main__", alter_sys=True)
