"""One run of a pipeline: a query from start to end, what it says meanwhile, and how somebody else stops it.

The pipeline's folder holds all that is known of it: Spark's checkpoint, `progress.jsonl`, `run.json` (who runs it, and
how the last run ended), and `stop`, which whoever wants it to end puts there. The micro-batch that is under way is
finished first: what is cut off is not lost, but done again.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from headrace.errors import HeadraceError
from headrace.spark import loss
from headrace.spark.pipelines.causes import cause_of
from headrace.spark.pipelines.exclusive import exclusive, is_locked
from headrace.spark.pipelines.session import even_without_java
from headrace.spark.pipelines.settings import AVAILABLE_NOW, Order, Settings, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.spark.pipelines.progress import Recorder
    from headrace.spark.pipelines.store import Store

RUN, STOP = "run.json", "stop"
DONE, STOPPED, FAILED = "done", "stopped", "failed"
LOOK_S: Final = 1  # how often a stop is looked for
BATCH_LOOK_S: Final = 0.1  # how often the end of a micro-batch is
BATCH_LIMIT_S: Final = 600.0  # a micro-batch that hangs must not keep it from stopping


class PipelineFailed(HeadraceError):
    """The query ended with an error; the text is its cause, and `report` what it had done by then."""

    report: Report | None = None


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
    waiting: str | None = None  # what was read, and waits for later times; of a run before this one, too
    is_read_twice: bool = False  # so that `rows` has each of them twice

    @property
    def line(self) -> str:
        twice = " (each is read twice and counted so, for [deadletter])" if self.is_read_twice else ""
        late = f", {self.late:,} late rows left out" if self.late else ""
        waiting = f"; {self.waiting} wait for later times" if self.waiting else ""
        return (
            f"{self.name}: {self.state} after {self.seconds:.1f} s; {self.rows:,} rows{twice} in {self.batches} "
            f"batch{'' if self.batches == 1 else 'es'} ({self.rows_per_s:,.0f} rows/s){late}{waiting}"
        )


def run(
    spark: SparkSession,
    settings: Settings,
    say: Callable[[str], None] = print,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Report:
    """Until the query ends, or somebody stops it: by `is_stopped`, or from another process."""
    return run_in(contextlib.nullcontext(spark), settings, say, is_stopped)


def run_in(
    session: AbstractContextManager[SparkSession],
    settings: Settings,
    say: Callable[[str], None] = print,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Report:
    """In a session that begins when the pipeline's folder is this run's alone, and ends before it is not any more."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    from headrace.spark.pipelines.progress import Recorder

    home = settings.home
    home.mkdir(parents=True, exist_ok=True)
    with exclusive(home, settings.name):
        (home / STOP).unlink(missing_ok=True)
        state = RunState(name=settings.name, pid=os.getpid(), state="running", began=time.time())
        _write(home, state)
        recorder = Recorder(home, settings.name, say)
        ended, why, failed, took = FAILED, None, None, 0.0
        try:
            with session as spark:
                began = time.monotonic()
                try:
                    ended = _heard(spark, settings, recorder, lambda: is_stopped() or (home / STOP).exists())
                except (
                    PySparkException,
                    Py4JJavaError,
                ) as error:  # their words are Java's, which ends with the session
                    raise PipelineFailed(_in_its_words(cause_of(error), settings)) from error
                finally:
                    took = time.monotonic() - began
        except PipelineFailed as error:
            failed, why = error, str(error)
            raise
        except (Py4JError, ConnectionError) as error:
            failed = PipelineFailed(why := f"Spark's Java process does not answer any more: {cause_of(error)}")
            raise failed from error
        except KeyboardInterrupt:  # who does not wait, for Spark or the micro-batch, stops it all the same
            ended = STOPPED
            raise
        except BaseException as error:
            why = str(error) or type(error).__name__
            raise
        finally:
            (home / STOP).unlink(missing_ok=True)
            _write(home, msgspec.structs.replace(state, state=ended, ended=time.time(), error=why))
            if failed is not None:
                failed.report = _report(settings, ended, took, recorder)
        return _report(settings, ended, took, recorder)


def _in_its_words(cause: str, settings: Settings) -> str:
    """Advice in the names of a pipeline's file, where the cause has those of Spark's options."""
    if loss.ADVICE not in cause:
        return cause
    told = cause.replace(f"; {loss.ADVICE}", "")
    anew = f"to begin anew where `start` says, remove {settings.home} (what it has written stays)"
    if isinstance(settings.beginning, Source):
        return f"{told}; `fail_on_data_loss = false` in [source] goes on without what is lost; {anew}"
    return f"{told}; {anew}"


def _heard(spark: SparkSession, settings: Settings, recorder: Recorder, is_stopped: Callable[[], bool]) -> str:
    """With the recorder told of every micro-batch; how it ended."""
    from headrace.spark.pipelines import late
    from headrace.spark.pipelines.flow import placed
    from headrace.spark.pipelines.store import Store

    if is_stopped():  # while Spark was being started
        return STOPPED
    whole = placed(spark, settings)
    checkpoint = Store(spark, whole.checkpoint)
    recorder.watermark_ms = lambda batch: late.watermark_ms(checkpoint, batch)
    spark.streams.addListener(recorder)
    try:
        return _work(spark, whole, checkpoint, is_stopped)
    finally:
        with even_without_java():
            _drain(spark)
        with even_without_java():
            spark.streams.removeListener(recorder)


def _work(spark: SparkSession, settings: Settings, checkpoint: Store, is_stopped: Callable[[], bool]) -> str:
    """How it ended: done or stopped. What the run before owes comes first, after the rows that are there (owed.py)."""
    from headrace.spark.pipelines import owed
    from headrace.spark.pipelines.flow import start

    if owed.is_owed(spark, checkpoint):
        ended = _follow(start(spark, msgspec.structs.replace(settings, trigger=AVAILABLE_NOW)), is_stopped)
        if ended == STOPPED:
            return ended
        if owed.is_owed(spark, checkpoint):
            owed.plan(checkpoint)
        elif settings.trigger == AVAILABLE_NOW:
            return ended
    return _follow(start(spark, settings), is_stopped)


def _follow(query: StreamingQuery, is_stopped: Callable[[], bool]) -> str:
    try:
        while not _ended(query):
            if is_stopped():
                _stop(query)
                return STOPPED
    except BaseException:
        with even_without_java():
            query.stop()
        raise
    return DONE


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
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None
    if found.is_running and not (_lives(found.pid) and is_locked(home)):  # the system gives a process's number again
        return msgspec.structs.replace(found, state="killed")
    return found


def _report(settings: Settings, state: str, seconds: float, told: Recorder) -> Report:
    return Report(
        name=settings.name,
        state=state,
        seconds=seconds,
        batches=told.batches,
        rows=told.rows,
        late=told.late,
        rows_per_s=told.rows / seconds if seconds else 0.0,
        waiting=_waiting(settings),
        is_read_twice=settings.deadletter is not None,
    )


def _waiting(settings: Settings) -> str | None:
    """Spark's state tells how many rows of windows there are, and not how many rows [order] holds back: those it has
    put together."""
    from headrace.spark.pipelines.progress import recorded

    last = next(reversed(recorded(settings.home)), None)
    if last is None or last.watermark is None:
        return None
    if any(isinstance(step, Order) for step in settings.steps):
        return f"rows after {last.watermark}"
    return f"windows that end after {last.watermark} (rows so far: {last.windows:,})" if last.windows else None


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
