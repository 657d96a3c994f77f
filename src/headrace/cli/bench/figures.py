"""What a benchmark measures: rates, latencies and how they went over time; the table and JSON of it.

Latencies are kept by sample above a limit, and the series merges its steps when they become many, so that an hour costs
no more memory than a minute.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence

import msgspec

from headrace.cli.output import Column

MAX_SAMPLES = 200_000
MAX_STEPS = 4000
FIRST_STEP_S = 0.05
MIB = 1 << 20
PERCENTILES = {"p50_ms": 50.0, "p95_ms": 95.0, "p99_ms": 99.0, "p999_ms": 99.9}


class Measured(msgspec.Struct, frozen=True):
    """One line of the result. Latencies are null where the work has none."""

    work: str
    topic: str
    records: int
    bytes: int
    seconds: float
    records_per_second: float
    mib_per_second: float
    cpu_seconds: float
    """Of this process, the client: how far it was itself what limited the rate."""
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    max_ms: float | None = None


class Series:
    """How many were done in each step of time."""

    def __init__(self) -> None:
        self.step_s = FIRST_STEP_S
        self.counts = [0]

    def add(self, after_s: float, count: int = 1) -> None:
        at = int(after_s / self.step_s)
        while at >= MAX_STEPS:
            self.counts = [sum(self.counts[i : i + 2]) for i in range(0, len(self.counts), 2)]
            self.step_s *= 2
            at = int(after_s / self.step_s)
        if at >= len(self.counts):
            self.counts.extend([0] * (at + 1 - len(self.counts)))
        self.counts[at] += count

    def rates(self) -> tuple[list[float], list[float]]:
        """Seconds since the beginning, and records per second; the last step is not over, so it is left out."""
        whole = self.counts[:-1] or self.counts
        return [at * self.step_s for at in range(len(whole))], [count / self.step_s for count in whole]


class Meter:
    """Counts one run. `expected`: how many latencies may come, so that a sample of them is spread over the run."""

    def __init__(self, work: str, topic: str, expected: int) -> None:
        self.work, self.topic = work, topic
        self.records = self.bytes = 0
        self.series = Series()
        self.latencies_ms = array("d")
        self._every = max(1, -(-expected // MAX_SAMPLES))
        self._told = 0
        self.begin = self._last = time.perf_counter()
        self._cpu_begin, self._cpu_s = time.process_time(), 0.0

    def start(self) -> None:
        """What was before does not count."""
        self.begin = self._last = time.perf_counter()
        self._cpu_begin = time.process_time()

    def stop(self) -> None:
        self._cpu_s = time.process_time() - self._cpu_begin

    def done(self, count: int, size: int, latency_s: float | None = None) -> None:
        self._last = time.perf_counter()
        self.series.add(self._last - self.begin, count)
        if latency_s is not None:
            self._told += count
            if self._told >= self._every:
                self._told = 0
                self.latencies_ms.append(latency_s * 1000)
        self.records += count
        self.bytes += size

    def result(self) -> Measured:
        seconds = max(self._last - self.begin, 1e-9)
        found = percentiles(self.latencies_ms)
        return Measured(
            work=self.work,
            topic=self.topic,
            records=self.records,
            bytes=self.bytes,
            seconds=round(seconds, 3),
            records_per_second=round(self.records / seconds, 1),
            mib_per_second=round(self.bytes / seconds / MIB, 3),
            cpu_seconds=round(self._cpu_s, 3),
            **found,
        )


def percentiles(values_ms: Sequence[float]) -> dict[str, float]:
    """By nearest rank; nothing where there are none."""
    if not values_ms:
        return {}
    ordered = sorted(values_ms)
    found = {
        name: round(ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))], 3)
        for name, percent in PERCENTILES.items()
    }
    return found | {"max_ms": round(ordered[-1], 3)}


def _number(digits: int) -> Callable[[float], str]:
    return lambda value: f"{value:,.{digits}f}"


COLUMNS = (
    Column("work"),
    Column("topic", wide=True),
    Column("records", align="right", show=_number(0)),
    Column("bytes", align="right", show=_number(0), wide=True),
    Column("seconds", align="right", show=_number(2)),
    Column("records_per_second", "records/s", align="right", show=_number(0)),
    Column("mib_per_second", "MiB/s", align="right", show=_number(2)),
    Column("cpu_seconds", "cpu s", align="right", show=_number(2), wide=True),
    Column("p50_ms", "p50 ms", align="right", show=_number(2)),
    Column("p95_ms", "p95 ms", align="right", show=_number(2), wide=True),
    Column("p99_ms", "p99 ms", align="right", show=_number(2)),
    Column("p999_ms", "p99.9 ms", align="right", show=_number(2)),
    Column("max_ms", "max ms", align="right", show=_number(2)),
)
