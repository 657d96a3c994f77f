"""A Spark session as pipelines want it, on this machine or on a cluster, which is sent this package.

Java and Spark say much that is nobody's business; a session may be given a file for it, so that a terminal shows a
pipeline's own lines.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import HeadraceError
from headrace.spark.errors import SparkDidNotStart
from headrace.spark.pipelines.causes import cause_of, last_words

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
STACKS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")  # PySpark writes errors there that it raises
SHIPPED: Final = "headrace-shipped"
END_LIMIT_S: Final = 10.0  # of Java: it has no more to do by then than to go


def session(
    name: str = "headrace",
    master: str = LOCAL,
    settings: Mapping[str, str] | None = None,
    *,
    delta: bool = False,
    log: Path | None = None,
    check: Callable[[], None] = lambda: None,
) -> SparkSession:
    """`delta`: with what Delta tables need; `log`: where Java says what it says, if this starts it, and `check`: what
    may raise when Java is there and Spark is not yet."""
    from pyspark.logger import PySparkLogger

    import headrace.spark
    from headrace.spark.jars import JARS, delta_settings

    asked = dict(settings or {})
    extra = delta_settings(asked.pop(JARS, "")) if delta else {}
    place = LOOPBACK if master.startswith("local") else shipping()
    chosen = PLAIN | extra | place | asked
    if log is not None:
        headrace.spark.check_java()
        _start_java({"spark.master": master, "spark.app.name": name, **headrace.spark.SETTINGS, **chosen}, log, check)
    spark = headrace.spark.session(name, master, **{key.replace(".", "__"): value for key, value in chosen.items()})
    spark.sparkContext.setLogLevel("ERROR")
    counters: Any = spark.sparkContext._accumulatorServer
    counters.handle_error = lambda *_: None  # Java that ends while it talks is no news, and no place for a stack
    for logger in STACKS:
        PySparkLogger.getLogger(logger).setLevel(logging.CRITICAL + 1)
    return spark


@contextlib.contextmanager
def own_session(
    name: str, master: str, settings: Mapping[str, str], *, delta: bool, log: Path, check: Callable[[], None]
) -> Iterator[SparkSession]:
    """One whose Java ends with it, however far Spark came; one that was there before stays. A signal must not raise
    while it starts: PySpark that is interrupted while it waits for Java forgets it, and Java waits for ever. It is
    `check` that may."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    before = SparkContext._gateway
    try:
        try:
            spark = session(name, master, settings, delta=delta, log=log, check=check)
        except (HeadraceError, Py4JError, PySparkException, ConnectionError) as error:
            check()  # a Ctrl-C reaches every program that helps to start it, and what ends of that did not fail
            if isinstance(error, HeadraceError):
                raise
            raise SparkDidNotStart(f"Spark did not start: {cause_of(error)}") from error
        try:
            yield spark
        finally:
            with even_without_java():
                spark.stop()
    finally:
        if SparkContext._gateway is not before:
            _end_java()


@contextlib.contextmanager
def even_without_java() -> Iterator[None]:
    """What tidies up must not hide why it does: that Java is gone is known by then, or does not matter any more."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with contextlib.suppress(Py4JError, PySparkException, ConnectionError):
        yield


def _start_java(settings: Mapping[str, str], log: Path, check: Callable[[], None]) -> None:
    """What the first session does anyway, with streams of its own, and in a thread of its own: in the main one Spark
    would take Ctrl-C for itself."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    from headrace.spark import choose_python

    if SparkContext._gateway is not None:
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    choose_python(settings["spark.master"])
    with log.open("wb") as file:
        try:
            start: Any = launch_gateway
            gateway = start(SparkConf().setAll([*settings.items()]), {"stdout": file, "stderr": file})
        except PySparkRuntimeError as error:
            why = last_words(log)
            said = f"it said: {why}; more is in {log}" if why else f"its last words are in {log}"
            raise SparkDidNotStart(f"Java ended before Spark had begun; {said}") from error
    SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm
    check()
    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(SparkContext.getOrCreate, SparkConf().setAll([*settings.items()])).result()


def _end_java() -> None:
    """Java ends when its standard input does; one that does not is ended."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None or gateway.proc is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


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
