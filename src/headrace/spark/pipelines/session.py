"""A Spark session as pipelines want it, on this machine or on a cluster, which is sent this package.

Java and Spark say much that is nobody's business; a session may be given a file for it, so that a terminal shows a
pipeline's own lines.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.errors import SparkDidNotStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PLAIN: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    "spark.sql.shuffle.partitions": "4",  # a task costs more than a small batch; a large job sets its own
    "spark.ui.enabled": "false",
}
LOCAL: Final = "local[*]"
LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}  # nobody else has a part
LOG: Final = "spark.log"
SHIPPED: Final = "headrace-shipped"


def session(
    name: str = "headrace",
    master: str = LOCAL,
    settings: Mapping[str, str] | None = None,
    *,
    delta: bool = False,
    log: Path | None = None,
) -> SparkSession:
    """`delta`: with what Delta tables need; `log`: where Java says what it says, if this starts it."""
    import headrace.spark
    from headrace.spark.jars import delta_settings

    jars = delta_settings() if delta and "spark.jars" not in (settings or {}) else {}
    place = LOOPBACK if master.startswith("local") else shipping()
    chosen = PLAIN | jars | place | dict(settings or {})
    if log is not None:
        headrace.spark.check_java()
        _start_java({"spark.master": master, "spark.app.name": name, **headrace.spark.SETTINGS, **chosen}, log)
    spark = headrace.spark.session(name, master, **{key.replace(".", "__"): value for key, value in chosen.items()})
    spark.sparkContext.setLogLevel("ERROR")
    counters: Any = spark.sparkContext._accumulatorServer
    counters.handle_error = lambda *_: None  # Java that ends while it talks is no news, and no place for a stack
    return spark


def _start_java(settings: Mapping[str, str], log: Path) -> None:
    """What the first session does anyway, with streams of its own."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with log.open("wb") as file:
        try:
            start: Any = launch_gateway
            gateway = start(SparkConf().setAll([*settings.items()]), {"stdout": file, "stderr": file})
        except PySparkRuntimeError as error:
            raise SparkDidNotStart(f"Java ended before Spark had begun; its last words are in {log}") from error
    SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm


def shipping() -> dict[str, str]:
    """What sends this package, its kernels included, to every worker, which then needs only its dependencies. The
    kernels are those of this machine's kind; a worker of another kind works with the Python ones."""
    import headrace

    folder = Path(tempfile.mkdtemp(prefix=f"{SHIPPED}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = folder / f"{SHIPPED}.zip"
    roots = [Path(headrace.__file__).parent]
    try:
        import headrace_native
    except ImportError:
        pass
    else:
        roots.append(Path(headrace_native.__file__).parent)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for root in roots:
            for file in sorted(root.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    out.write(file, file.relative_to(root.parent))
    return {"spark.archives": f"{archive}#{SHIPPED}", "spark.executorEnv.PYTHONPATH": f"./{SHIPPED}"}
