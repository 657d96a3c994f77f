"""What a replay of a Parquet archive has read before: Spark knows files by their names, and merged files have new ones.

Rows of files that were merged since would come a second time. So a replay that goes on looks whether that happened, and
says no; Delta's log tells a merge from new rows, and needs no such look.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines.archive import MERGED
from headrace.spark.pipelines.store import INSIDE, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.spark.pipelines.settings import Replay, Settings

SEEN: Final = "checkpoint/sources/0"  # where a query keeps the names of files that it has read


def check_unmerged(spark: SparkSession, settings: Settings, replay: Replay) -> None:
    home, archive = Store(spark, str(settings.home)), Store(spark, replay.path)
    if not home.exists(SEEN) or not archive.exists(INSIDE):
        return
    there = {_place(name) for name, _ in archive.listed("")}
    seen = _seen(spark, home.path(SEEN))
    merged = {day for day, name in there - seen if MERGED in name}
    if any(day in merged for day, _ in seen - there):
        raise InvalidOption(
            f"[replay] files of {replay.path} that {settings.name!r} has read were merged since; they would come again:"
            ' a replay that goes on later needs an archive of format = "delta", or with compact_files = 0;'
            " under another name it begins anew"
        )


def _seen(spark: SparkSession, path: str) -> set[tuple[str, str]]:
    lines = (row[0] for row in spark.read.text(path).collect())
    return {_place(json.loads(line)["path"]) for line in lines if line.startswith("{")}


def _place(path: str) -> tuple[str, str]:
    """Day and name of a file: its whole path is written in more than one way."""
    folder, _, name = path.rpartition("/")
    return folder.rpartition("=")[2].rpartition("%3D")[2], name
