"""A small engine that stands where Spark stands around the sink, and dies: `python -m tests.spark.engine '{...}'`.

It does what Spark does as far as a sink can see: micro-batches in order, a checkpoint that is written after a commit,
tasks in processes of their own, failed ones again with the next attempt number, sometimes two attempts of one at once;
a batch that runs again has its rows in another order and spread over other tasks. And it kills, with SIGKILL, itself or
its tasks, at every step between. Each of its lives is a child of the process that was started, which forks the next
when one has died, until one ends by itself: so what Spark and Arrow cost to import is paid once.

`fault` plants a fault that the history must show: `no-ledger` commits each run under a number of its own, and
`no-transaction` writes without one.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from headrace.errors import HeadraceError
from headrace.spark import sink
from headrace.spark.sink_options import SinkOptions

BATCHES, ROWS, TASKS, ATTEMPTS = 3, 60, 3, 4
MAX_LIVES = 100
REST_S = 0.2  # of the next life, when the last found no broker
QUERY = "spark:engine"


class Plan(msgspec.Struct):
    address: str
    topic: str
    folder: str
    seed: int
    deadliness: float  # the chance of dying at a step
    fault: str = ""


class Context:
    """What a task knows of itself, as Spark's TaskContext tells it."""

    now = (0, 0)

    @classmethod
    def get(cls) -> Context:
        return cls()

    def partitionId(self) -> int:
        return self.now[0]

    def attemptNumber(self) -> int:
        return self.now[1]


class Engine:
    def __init__(self, plan: Plan, life: int) -> None:
        self.plan, self.folder = plan, Path(plan.folder)
        self.chance = random.Random(f"{plan.seed} {life}")
        self.life = life
        guarantee = "at-least-once" if plan.fault == "no-transaction" else None
        self.options = SinkOptions(
            servers=plan.address, topic=plan.topic, timeout=20.0, sink_timeout_s=6.0, guarantee=guarantee
        )

    def may_die(self, share: float = 1.0) -> None:
        if self.chance.random() < self.plan.deadliness * share:
            os.kill(os.getpid(), signal.SIGKILL)

    def run(self) -> None:
        number = sink.draw(self.options)
        self.may_die()
        for batch in range(BATCHES):
            if not (self.folder / f"committed-{batch}").exists():
                self.run_batch(batch, number)

    def run_batch(self, batch: int, number: int | None) -> None:
        ledger_batch = batch if self.plan.fault != "no-ledger" else 1000 * self.life + batch
        rows = [b"%d" % row for row in range(batch * ROWS, (batch + 1) * ROWS)]
        self.chance.shuffle(rows)
        cuts = sorted(self.chance.randrange(ROWS + 1) for _ in range(TASKS - 1))
        shares = [rows[first:last] for first, last in zip([0, *cuts], [*cuts, ROWS], strict=True)]
        messages = [self.run_task(task, share, ledger_batch, number) for task, share in enumerate(shares)]
        self.may_die()
        if self.chance.random() < self.plan.deadliness:  # while the request is on its way, or just answered
            delay_s = self.chance.random() * 0.02
            threading.Thread(target=lambda: (time.sleep(delay_s), os.kill(os.getpid(), signal.SIGKILL))).start()
        try:
            sink.commit(self.options, messages)
        except HeadraceError:
            sink.abort(self.options, messages)  # as Spark does
            raise
        self.may_die(2.0)
        (self.folder / f"committed-{batch}").touch()

    def run_task(self, task: int, rows: list[bytes], batch: int, number: int | None) -> Any:
        if self.chance.random() < self.plan.deadliness:  # speculation: the other attempt's message is not used
            self.attempt(task, ATTEMPTS, rows, batch, number)
        for attempt in range(ATTEMPTS):
            message = self.attempt(task, attempt, rows, batch, number)
            if message is not None:
                return message
        raise SystemExit(f"task {task} failed {ATTEMPTS} times")

    def attempt(self, task: int, attempt: int, rows: list[bytes], batch: int, number: int | None) -> Any:
        """In a process of its own; None when it died."""
        seed = self.chance.random()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self.chance = random.Random(seed)
            Context.now = (task, attempt)
            code = 1
            try:
                message = sink.write(self.options, number, QUERY, batch, self.tables(rows))
                self.may_die()
                with os.fdopen(writing, "wb") as out:
                    pickle.dump(message, out)
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        with os.fdopen(reading, "rb") as given:
            told = given.read()
        _, status = os.waitpid(child, 0)
        return pickle.loads(told) if status == 0 else None

    def tables(self, rows: list[bytes]) -> Any:
        for at in range(0, len(rows), 10):
            yield pa.record_batch({"value": pa.array(rows[at : at + 10], pa.binary())})
            self.may_die(0.3)


def live(plan: Plan, life: int) -> int:
    """In a process of its own; how it ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            Engine(plan, life).run()
            code = 0
        except HeadraceError:
            traceback.print_exc()
            time.sleep(REST_S)
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def main(plan: Plan) -> None:
    sink.TaskContext = Context  # type: ignore[misc,assignment]
    sink.GATHERED_BYTES = 1  # type: ignore[misc] # each table is sent as it comes
    for life in range(MAX_LIVES):
        if live(plan, life) == 0:
            return
    sys.exit(f"it died {MAX_LIVES} times")


if __name__ == "__main__":
    main(msgspec.convert(json.loads(sys.argv[1]), Plan))
