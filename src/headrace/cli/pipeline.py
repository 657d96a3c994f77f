"""`headrace pipeline`: ready pipelines on Spark, run from one TOML file.

Only `run` starts Spark; the others look at the pipeline's file and folder. `list` and `show` do so without Spark.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import msgspec
import typer

from headrace.cli.commands import Noun
from headrace.cli.exits import not_found, usage
from headrace.cli.options import current, is_given, note
from headrace.cli.output import Column, done, show, show_one

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.spark.pipelines.settings import Settings

app = Noun("Pipelines on Spark: list the kinds, show one, run, status, stop.")
STOP_LOOK_S = 0.5
FINISHING = "finishing the micro-batch; Ctrl-C once more does not wait for it"
ENDING = "ending; Spark takes some seconds for it"

File = Annotated[Path, typer.Argument(metavar="FILE", help="the pipeline's TOML file")]


class KindRow(msgspec.Struct, frozen=True):
    kind: str
    about: str


class StatusRow(msgspec.Struct, frozen=True):
    name: str
    state: str
    pid: int | None
    batches: int
    rows: int
    lag: int | None
    last: str | None
    error: str | None


STATUS_COLUMNS = (
    Column("name"),
    Column("state"),
    Column("pid", align="right"),
    Column("batches", align="right"),
    Column("rows", align="right"),
    Column("lag", align="right"),
    Column("last"),
    Column("error", wide=True),
)


@app.command("list")
def list_() -> None:
    """List the kinds of pipeline.

    Examples:
      headrace pipeline list
    """
    from headrace.spark.pipelines.kinds import KINDS

    show([KindRow(name, kind.about) for name, kind in KINDS.items()], (Column("kind"), Column("about")))


@app.command("show")
def show_(what: Annotated[str, typer.Argument(metavar="KIND|FILE", help="a kind, or a pipeline's file")]) -> None:
    """Print a kind's file to begin with, or what a file says, with every default.

    Examples:
      headrace pipeline show rollup > orders.toml
      headrace pipeline show orders.toml -o yaml
    """
    from headrace.spark.pipelines.kinds import KINDS
    from headrace.spark.pipelines.settings import parse, tree_of
    from headrace.spark.pipelines.waits import overruled

    if what in KINDS:
        if current().output is None:
            print(KINDS[what].sample, end="")
            return
        settings = parse(KINDS[what].sample)
    elif Path(what).exists():
        settings = _settings(Path(what))
    else:
        raise not_found(f"{what!r} is no kind of pipeline and no file", f"kinds: {', '.join(KINDS)}")
    for sentence in overruled(settings):
        note(sentence)
    tree = tree_of(settings)
    show_one(tree, tuple(Column(name) for name in tree))


@app.command()
def run(
    file: File,
    master: Annotated[
        str, typer.Option("--master", metavar="URL", help="where it runs: local[*], spark://…, yarn, k8s://…")
    ] = "local[*]",
    trigger: Annotated[
        str | None,
        typer.Option("--trigger", metavar="TIME", help="available-now, or the time between micro-batches, as 10s"),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="a setting of Spark's")
    ] = None,
    plots: Annotated[
        bool, typer.Option("--plots/--no-plots", help="write report.html and report.png at the end")
    ] = True,
) -> None:
    """Run a pipeline until its input is used up, or for ever with a trigger; Ctrl-C or `pipeline stop` ends it.

    Examples:
      headrace pipeline run orders.toml
      headrace pipeline run orders.toml --trigger 10s
      headrace pipeline run orders.toml --master spark://10.0.0.1:7077 --conf spark.executor.memory=2g
    """
    _need_spark()
    settings = _settings(file)
    if trigger is not None:
        from headrace.spark.pipelines.settings import check

        settings = msgspec.structs.replace(settings, trigger=trigger)
        check(settings)
    chosen = dict(settings.spark)
    for text in setting or ():
        name, found, value = text.partition("=")
        if not found:
            raise usage(f"--conf {text!r} is not NAME=VALUE", "--conf spark.executor.memory=2g")
        chosen[name] = value
    _run(settings, master, chosen, plots)


def _run(settings: Settings, master: str, chosen: dict[str, str], plots: bool) -> None:
    from headrace.spark import check_java
    from headrace.spark.pipelines.exclusive import PipelineRuns
    from headrace.spark.pipelines.preflight import check_archive, check_master, check_ready
    from headrace.spark.pipelines.run import PipelineFailed, run_in
    from headrace.spark.pipelines.waits import overruled

    check_java()
    known = check_ready(settings)
    check_master(master)
    check_archive(settings, master)
    for sentence in (*known, *overruled(settings)):
        note(sentence)
    with _Asked() as asked:
        try:
            report = run_in(_spark(settings, master, chosen, asked), settings, note, asked.to_stop)
        except PipelineRuns:
            plots = False  # of the other run
            raise
        except PipelineFailed as error:
            if error.report is not None:
                note(error.report.line)
            raise
        finally:
            if plots:
                _draw(settings)
        done(report.line, report)
    if asked.by_hand:
        raise KeyboardInterrupt


@contextmanager
def _spark(settings: Settings, master: str, chosen: dict[str, str], asked: _Asked) -> Iterator[SparkSession]:
    from headrace.spark.pipelines.session import LOG, own_session

    log = settings.home / LOG
    note(f"starting Spark at {master}; what it says itself goes to {log}")
    started = own_session(settings.name, master, chosen, delta=settings.is_delta, log=log, check=asked.check)
    with started as spark, asked.while_it_works():
        asked.check()
        yield spark


class _Asked:
    """To stop, by a signal. Ctrl-C ends the micro-batch first, and a second one does not wait for that; Spark's own
    handling of it, which this replaces, would make the batch fail. While Spark starts or ends, Ctrl-C waits for it:
    what it would cut off is a process of Java's, which nobody would end then."""

    def __init__(self) -> None:
        self.by_hand = self._by_system = self._is_working = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._heard) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def while_it_works(self) -> Iterator[None]:
        self._is_working = True
        try:
            yield
        finally:
            self._is_working = False

    def to_stop(self) -> bool:
        return self.by_hand or self._by_system

    def check(self) -> None:
        """Where nothing is under way that must not be cut off."""
        if self.by_hand:
            raise KeyboardInterrupt

    def _heard(self, number: int, _: object) -> None:
        if number == signal.SIGTERM:
            self._by_system = True
            return
        is_first, self.by_hand = not self.by_hand, True
        if self._is_working and not is_first:
            logging.disable()  # PySpark would log, with a stack, that it was cut off
            raise KeyboardInterrupt
        if is_first:
            note(FINISHING if self._is_working else ENDING)


def _draw(settings: Settings) -> None:
    from headrace.spark.pipelines.pictures import draw
    from headrace.spark.pipelines.progress import history
    from headrace.spark.pipelines.run import state_of

    past, state = history(settings.home), state_of(settings.home)
    why = state.error if state is not None else None
    if past.seen or why:
        note(f"plots: {draw(settings.name, past, settings.home, why)[0]}")


@app.command()
def status(file: File) -> None:
    """Tell how a pipeline stands: whether it runs, its rows, and its lag when the last micro-batch was done.

    Examples:
      headrace pipeline status orders.toml
    """
    _need_spark()
    settings = _settings(file)
    from headrace.spark.pipelines.progress import history
    from headrace.spark.pipelines.run import state_of

    state, past = state_of(settings.home), history(settings.home)
    last = past.seen[-1] if past.seen else None
    row = StatusRow(
        settings.name,
        state.state if state else "never ran",
        state.pid if state and state.is_running else None,
        past.batches,
        past.rows,
        last.lag if last else None,
        last.at if last else None,
        state.error if state else None,
    )
    show([row], STATUS_COLUMNS)
    if row.error is not None and current().output is None:
        note(f"{row.name}: {row.error}")


@app.command()
def stop(
    file: File,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="until it has ended")] = True,
) -> None:
    """Stop a pipeline that runs on this machine, after its micro-batch; it goes on from there when it runs again.

    Examples:
      headrace pipeline stop orders.toml
    """
    _need_spark()
    settings = _settings(file)
    from headrace.spark.pipelines.run import state_of
    from headrace.spark.pipelines.run import stop as ask

    if not ask(settings.home):
        raise not_found(f"{settings.name} does not run here", f"headrace pipeline status {file}")
    deadline = time.monotonic() + current().timeout_s
    while wait and (state := state_of(settings.home)) is not None and state.is_running:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{settings.name} was asked to stop, and is still busy with its micro-batch")
        time.sleep(STOP_LOOK_S)
    done(f"{settings.name} {'has stopped' if wait else 'is being stopped'}", {"name": settings.name, "stopped": wait})


def _settings(file: Path) -> Settings:
    """As the file says; --server comes before it, and where neither names a server, it is every command's."""
    from headrace.spark.pipelines.kinds import KINDS
    from headrace.spark.pipelines.settings import load

    if str(file) in KINDS and not file.exists():
        raise not_found(f"{file} is a kind of pipeline, and no file", f"headrace pipeline show {file} > {file}.toml")
    if not file.exists():
        raise not_found(f"there is no file {file}", f"headrace pipeline show KIND > {file}")
    asked = current()
    settings = load(file, asked.server)
    if is_given("server") or is_given("context"):
        settings = msgspec.structs.replace(settings, servers=asked.server)
    return settings


def _need_spark() -> None:
    from headrace.spark import check_installed

    try:
        check_installed()
    except ImportError as error:
        raise usage(str(error)) from None
