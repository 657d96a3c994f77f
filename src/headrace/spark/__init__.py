"""Headrace in Spark, without a jar: `import headrace.spark`, then `spark.read.format("headrace")`.

    import headrace.spark

    spark = headrace.spark.session("my job")
    orders = headrace.spark.read(spark, "127.0.0.1:9092", "orders")

Importing it registers the source with the session that is active, if one is; `register` does that for a session that
was made later. (Spark also finds it by itself, through the package `pyspark_headrace`.) Needs the extra
`headrace[spark]` and Java 17.

Spark asks a source each thing in a Python process of its own, and each imports this: so modules here import the client
and pyarrow, half a second of CPU, only where they use them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from pyspark.sql import SparkSession
except ImportError:
    IS_INSTALLED = False  # what only reads or prints a pipeline's file needs no Spark
else:
    IS_INSTALLED = True

from headrace.cli import spark_python
from headrace.spark.java import check_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headrace.spark.source import HeadraceSource

NAME = "headrace"  # of the format
INSTALL = 'pip install "headrace[spark]"'

__all__ = ["HeadraceSource", "check_java", "read", "read_stream", "register", "session", "write", "write_stream"]

# What suits the source: large Arrow batches, and workers that run this very Python.
SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
    "spark.ui.showConsoleProgress": "false",
}


JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def check_installed() -> None:
    """ImportError, with how to get it, where Spark is not."""
    if not IS_INSTALLED:
        root = Path(__file__).resolve().parents[3]
        is_checkout = all((root / name).is_file() for name in ("Makefile", "pyproject.toml"))
        raise ImportError(f"Spark is not installed: {'make setup' if is_checkout else INSTALL}")


def session(name: str = "headrace", master: str = "local[*]", **settings: Any) -> SparkSession:
    """A session that knows the source, or the one that there is. Settings by their names, `.` written as `__`."""
    check_installed()
    check_java()
    choose_python(master)
    builder = SparkSession.builder.appName(name).master(master)
    given = {key.replace("__", "."): value for key, value in settings.items()}
    for key, value in {**SETTINGS, **given, JAVA_OPTIONS: quietly(given.get(JAVA_OPTIONS, ""))}.items():
        builder = builder.config(key, value)
    return register(builder.getOrCreate())


def choose_python(master: str) -> None:
    """What Spark is to run as Python, unless somebody has said it; Java takes it over when it starts."""
    os.environ.setdefault("PYSPARK_PYTHON", spark_python.beside() if master.startswith("local") else sys.executable)


def quietly(java_options: str) -> str:
    """With what keeps Java's stacks from the terminal, unless its log is configured already."""
    home = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", ""), "conf")
    if "log4j" in java_options or os.path.exists(os.path.join(home, LOG_SETTINGS.name)):
        return java_options
    return f"{java_options} -Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}".strip()


def register(spark: SparkSession) -> SparkSession:
    """Makes the format known to a session, and publishes the progress of its queries that name a group."""
    from headrace.spark.progress import listen
    from headrace.spark.source import HeadraceSource

    spark.dataSource.register(HeadraceSource)
    listen(spark)
    return spark


def read(spark: SparkSession, servers: str, topic: str, **options: Any) -> DataFrame:
    """A topic as it is now; several with commas. The options are the format's."""
    return spark.read.format(NAME).options(servers=servers, subscribe=topic, **options).load()


def read_stream(spark: SparkSession, servers: str, topic: str, **options: Any) -> DataFrame:
    """A topic as it grows."""
    return spark.readStream.format(NAME).options(servers=servers, subscribe=topic, **options).load()


def write(frame: DataFrame, servers: str, topic: str, **options: Any) -> None:
    """Adds the rows to a topic, all of them or none; a `writeId` makes a repeated write do nothing."""
    frame.write.format(NAME).mode("append").options(servers=servers, topic=topic, **options).save()


def write_stream(frame: DataFrame, servers: str, topic: str, checkpoint: str, **options: Any) -> DataStreamWriter:
    """A query that adds its rows to a topic, exactly once: `.start()` it, with a trigger or without."""
    writer = frame.writeStream.format(NAME).options(servers=servers, topic=topic, **options)
    return writer.option("checkpointLocation", checkpoint)


def __getattr__(name: str) -> object:
    if name != "HeadraceSource":
        raise AttributeError(f"module 'headrace.spark' has no attribute {name!r}")
    from headrace.spark.source import HeadraceSource

    return HeadraceSource


if IS_INSTALLED and (active := SparkSession.getActiveSession()) is not None:
    register(active)
