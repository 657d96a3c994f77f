"""A broker and a Spark that die and are started again, and what runs on them: `Stage.play` copies a topic by a query
while traps spring, and gives what a reader of committed records finds in the copy.

One stage serves many plays: whoever was not killed lives on, since a Spark takes seconds to start.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import pyarrow as pa

import headrace
from headrace.errors import HeadraceError
from headrace.testing.served import DOORS, ServedBroker
from tests.spark.data import create, values
from tests.spark.driver import DONE, Query
from tests.spark.traps import Cast, Trap, Traps

ROOT = Path(__file__).resolve().parents[2]
BATCHES, BATCH_ROWS, PARTITIONS = 3, 200, 2
EXPECTED = Counter(b"%d" % row for row in range(BATCHES * BATCH_ROWS))
LIMIT_S = 400.0  # for one play; a query takes some seconds, on a machine that is not busy
KAFKA_ONLY = tuple(word for door in DOORS if door != "kafka" for word in (f"--{door}", "off"))
LOCAL = "local[2,4]"  # a task may fail three times


class MortalBroker(ServedBroker):
    """It starts again at the same address."""

    def __init__(self, folder: Path, traps: Path) -> None:
        super().__init__(folder, *KAFKA_ONLY)
        words = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.spark.mortal_node import main"
        self.program = ("-c", f"{words}; main({str(traps)!r})")

    @property
    def is_dead(self) -> bool:
        return self._process is not None and self._process.poll() is not None


class Stage:
    def __init__(self, folder: Path, master: str = LOCAL, settings: dict[str, str] | None = None) -> None:
        self._folder, self._master, self._settings = folder, master, settings or {}
        self._traps_folder = folder / "traps"
        self._traps_folder.mkdir()
        self.traps = Traps(self._traps_folder)
        self.cast = Cast()
        self._broker = MortalBroker(folder / "node", self._traps_folder)
        self._driver: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._start_broker()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._driver is not None:
            self._end_driver()
        self._broker.__exit__(kind, error, trace)

    @property
    def address(self) -> str:
        return self._broker.address

    def play(
        self, name: str, traps: Sequence[Trap] = (), *, fault: str = "", guarantee: str = "exactly-once"
    ) -> Counter[bytes | None]:
        target = f"{name}-copy"
        for topic in (name, target):
            create(self.address, topic, PARTITIONS)
        with headrace.connect(self.address) as client, client.column_producer() as producer:
            producer.put(name, pa.record_batch({"value": pa.array(sorted(EXPECTED))}))
        checkpoint = str(self._folder / name)
        query = Query(self.address, name, target, checkpoint, BATCH_ROWS, str(self._traps_folder), guarantee)
        self.traps.set(traps, fault)
        deadline = time.monotonic() + LIMIT_S
        told = ""
        while told != DONE:
            assert time.monotonic() < deadline, f"the query does not come to its end: {told}\n{self._broker.log()}"
            told = self._run(query, deadline)
        return self._settled(target, deadline)

    def _run(self, query: Query, deadline: float) -> str:
        """What it came to; nothing when its driver died."""
        if self._driver is None:
            self._start_driver()
        driver = self._driver
        assert driver is not None and driver.stdin is not None and driver.stdout is not None
        try:
            driver.stdin.write(msgspec.json.encode(query) + b"\n")
            driver.stdin.flush()
        except BrokenPipeError:
            self._end_driver()
            return ""
        while time.monotonic() < deadline:
            if self._broker.is_dead:
                self._start_broker()
            if select.select([driver.stdout], [], [], 0.02)[0]:
                told = driver.stdout.readline().decode().strip()
                if not told:
                    self._end_driver()
                return told
        return "it takes too long"

    def _settled(self, topic: str, deadline: float) -> Counter[bytes | None]:
        """What can be read when all that was decided is carried out, be it by the broker's next life: markers follow
        the answer, so the query may be done when a trap springs at them."""
        while True:
            assert time.monotonic() < deadline, f"a transaction stays open\n{self._broker.log()}"
            if self._broker.is_dead:
                self._start_broker()
            with contextlib.suppress(HeadraceError):
                if self._is_settled(topic):
                    return Counter(values(self.address, topic))
            time.sleep(0.05)

    def _is_settled(self, topic: str) -> bool:
        with headrace.connect(self.address, timeout=5.0) as client:
            is_open = client.admin.offsets(topic, "end", "read_committed") != client.admin.offsets(topic, "end")
            return not is_open and not any(one.state.startswith("Prepare") for one in client.admin.list_transactions())

    def _start_broker(self) -> None:
        self._broker.start()
        self.cast.broker = self._broker.pid
        self.traps.cast(self.cast)

    def _start_driver(self) -> None:
        with open(self._folder / "driver.log", "ab") as log:
            self._driver = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.driver", self._master, json.dumps(self._settings)],
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self.cast.driver = self._driver.pid
        if self._master.startswith("local"):
            self.cast.roots = [self._driver.pid]
        self.traps.cast(self.cast)

    def _end_driver(self) -> None:
        """Dead or not."""
        driver, self._driver = self._driver, None
        assert driver is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)  # the JVM with it; its workers follow when it is gone
        driver.wait()
