"""One run of a pipeline: a query from start to end, what it says meanwhile, and how somebody else stops it.

The pipeline's folder holds all that is known of it: Spark's checkpoint, `progress.jsonl`, `run.json` (who runs it, and
how the last run ended), and `stop`, which whoever wants it to end puts there. The micro-batch that is under way is
finished first: what is cut off is not lost, but done again.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from headrace.errors import HeadraceError
from headrace.spark.pipelines.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.spark.pipelines.progress import Recorder

RUN, STOP, LOCK = "run.json", "stop", "lock"
TRACEBACK: Final = "Traceback (most recent call last):"
OURS: Final = re.compile(r"\bheadrace[\w.]*\.[A-Z]\w*: ")  # an error of ours comes without a traceback
LOOK_S: Final = 1  # how often a stop is looked for
BATCH_LOOK_S: Final = 0.1  # how often the end of a micro-batch is
BATCH_LIMIT_S: Final = 600.0  # a micro-batch that hangs must not keep it from stopping


class PipelineFailed(HeadraceError):
    """The query ended with an error; the text is its cause, and `report` what it had done by then."""

    report: Report | None = None


class PipelineRuns(HeadraceError):
    """Another process runs it."""


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    pid: int
    state: str  # running, done, stopped, failed; killed: it said that it runs, and does not
    began: float
    ended: float | None = None
    error: str | None = None

    @property
    def is_running(self) -> bool:
        return self.state == "running"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    state: str
    seconds: float
    batches: int
    rows: int
    late: int
    rows_per_s: float

    @property
    def line(self) -> str:
        late = f", {self.late:,} late rows left out" if self.late else ""
        return (
            f"{self.name}: {self.state} after {self.seconds:.1f} s; {self.rows:,} rows in {self.batches} "
            f"batch{'' if self.batches == 1 else 'es'} ({self.rows_per_s:,.0f} rows/s){late}"
        )


def run(
    spark: SparkSession,
    settings: Settings,
    say: Callable[[str], None] = print,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Report:
    """Until the query ends, or somebody stops it: by `is_stopped`, or from another process."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from headrace.spark.pipelines import late
    from headrace.spark.pipelines.flow import placed, start
    from headrace.spark.pipelines.progress import Recorder
    from headrace.spark.pipelines.store import Store

    home = settings.home
    home.mkdir(parents=True, exist_ok=True)
    with _Exclusive(home, settings.name):
        (home / STOP).unlink(missing_ok=True)
        began = time.time()
        state = RunState(name=settings.name, pid=os.getpid(), state="running", began=began)
        _write(home, state)
        checkpoint = Store(spark, placed(spark, settings).checkpoint)
        recorder = Recorder(home, settings.name, say, lambda batch: late.watermark_ms(checkpoint, batch))
        ended, why, failed = "failed", None, None
        spark.streams.addListener(recorder)
        try:
            query = start(spark, placed(spark, settings))
            try:
                while not _ended(query):
                    if is_stopped() or (home / STOP).exists():
                        _stop(query)
                        ended = "stopped"
                        break
                else:
                    ended = "done"
            except BaseException:
                with _even_without_java():
                    query.stop()
                raise
        except PySparkException as error:
            failed = PipelineFailed(why := cause_of(error))
            raise failed from error
        except (Py4JError, ConnectionError) as error:
            failed = PipelineFailed(why := f"Spark's Java process does not answer any more: {cause_of(error)}")
            raise failed from error
        except BaseException as error:
            why = str(error) or type(error).__name__
            raise
        finally:
            with _even_without_java():
                _drain(spark)
                spark.streams.removeListener(recorder)
            (home / STOP).unlink(missing_ok=True)
            took = time.time() - began
            _write(home, msgspec.structs.replace(state, state=ended, ended=began + took, error=why))
            if failed is not None:
                failed.report = _report(settings.name, ended, took, recorder)
        return _report(settings.name, ended, took, recorder)


@contextlib.contextmanager
def _even_without_java() -> Iterator[None]:
    """What tidies up must not hide why it does: that Java is gone is known by then, or does not matter any more."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with contextlib.suppress(Py4JError, PySparkException, ConnectionError):
        yield


def _ended(query: StreamingQuery) -> bool:
    return bool(query.awaitTermination(LOOK_S))


def _stop(query: StreamingQuery) -> None:
    """After its micro-batch. One that fails meanwhile has failed: somebody who stopped it must hear of that."""
    _finish_batch(query)
    failure = query.exception()
    if failure is not None:
        raise failure
    query.stop()


def _finish_batch(query: StreamingQuery) -> None:
    begun = _batch(query)
    deadline = time.monotonic() + BATCH_LIMIT_S
    while query.isActive and query.status["isTriggerActive"] and _batch(query) == begun:
        if time.monotonic() > deadline:
            return
        time.sleep(BATCH_LOOK_S)


def _batch(query: StreamingQuery) -> int:
    """The last that is done; -1: none yet."""
    progress = query.lastProgress
    return progress["batchId"] if progress is not None else -1


def _drain(spark: SparkSession) -> None:
    """What the listener was not told yet: it is told by a thread of its own."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()


def stop(home: Path) -> bool:
    """Asks for it; False: it does not run."""
    found = state_of(home)
    if found is None or not found.is_running:
        return False
    (home / STOP).touch()
    return True


def state_of(home: Path) -> RunState | None:
    """None: it never ran there."""
    try:
        found = msgspec.json.decode((home / RUN).read_bytes(), type=RunState)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    if found.is_running and not (_lives(found.pid) and _is_locked(home)):  # the system gives a process's number again
        return msgspec.structs.replace(found, state="killed")
    return found


OTHER_SOURCES = "sources in the checkpoint offsets and now there are"
OTHER_PARTS = (
    "the file has other parts than when its checkpoint was made ([deadletter] or a source came or went), and a query"
    " cannot go on so; to begin anew where `start` says, remove the pipeline's folder (what it has written stays)"
)


def cause_of(error: BaseException) -> str:
    """The sentence in stacks of Java's and Python's that says what went wrong: the end of the innermost traceback,
    else what we said, else what Spark says first."""
    text = str(error)
    if OTHER_SOURCES in text:
        return OTHER_PARTS
    if TRACEBACK in text:
        after = text.rpartition(TRACEBACK)[2].splitlines()[1:]
        chosen = next((line for line in after if line and not line[0].isspace()), text)
    else:
        spoken = text.partition(" terminated with exception: ")[2] or text
        if (ours := OURS.search(spoken)) is not None:
            return spoken[ours.end() :].splitlines()[0].partition(" SQLSTATE: ")[0].strip()
        chosen = next((line for line in spoken.splitlines() if line.strip()), type(error).__name__)
    head, _, rest = chosen.partition(" SQLSTATE: ")[0].strip().partition(": ")
    said = rest if rest and " " not in head else f"{head}: {rest}" if rest else head
    return re.sub(r"^\[[A-Z_.]+\] ", "", said)


def _report(name: str, state: str, seconds: float, told: Recorder) -> Report:
    return Report(
        name=name,
        state=state,
        seconds=seconds,
        batches=told.batches,
        rows=told.rows,
        late=told.late,
        rows_per_s=told.rows / seconds if seconds else 0.0,
    )


def _write(home: Path, state: RunState) -> None:
    fresh = home / f"{RUN}.new"
    fresh.write_bytes(msgspec.json.encode(state))
    fresh.replace(home / RUN)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_locked(home: Path) -> bool:
    import fcntl

    try:
        with (home / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


class _Exclusive:
    """One run at a time: two would share a checkpoint. The lock dies with its process."""

    def __init__(self, home: Path, name: str) -> None:
        self._home, self._name = home, name

    def __enter__(self) -> None:
        import fcntl

        self._file = (self._home / LOCK).open("wb")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise PipelineRuns(f"{self._name} runs already; `headrace pipeline stop` ends it") from None

    def __exit__(self, *_: object) -> None:
        self._file.close()
