"""`make bench-spark`: our Spark source and sink beside Spark's own Kafka connector, as it comes and as tuned, on one
topic of one node of ours, in one Spark, in one interleaved run.

What counts is rows per CPU second, of everything that takes part: the JVM, Spark's Python processes and the broker. The
JVM is warmed first, each way as much as the others, because a cold one is several times dearer.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.processes import Process, Watch
from bench.servers import Headrace, ServerError
from bench.spark_table import ROWS, Results, Sample, text_table, write
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.spark_work import Bench, Way

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-spark", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is repeated")
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of the topic that is read")
    parser.add_argument("--written", type=int, default=1_000_000, help="rows that are written")
    parser.add_argument("--warm", type=int, default=20_000_000, help="rows that each way reads first; a tenth written")
    parser.add_argument("--memory", default="1g", help="heap of the JVM")
    parser.add_argument("--only", default=",".join(ROWS), help=f"parts, comma-separated: {', '.join(ROWS)}")
    parser.add_argument("--ways", default="headrace,default,tuned", help="which of headrace, default, tuned")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, one round: does it run at all?")
    parser.add_argument("--keep", action="store_true", help="write spark.json and spark.png, which the pages show")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rounds = 1
        chosen.rows, chosen.written, chosen.warm = chosen.rows // 10, chosen.written // 10, chosen.warm // 40
    chosen.only, chosen.ways = chosen.only.split(","), chosen.ways.split(",")
    unknown = set(chosen.only) - set(ROWS) or set(chosen.ways) - {"headrace", "default", "tuned"}
    if unknown:
        parser.error(f"not known: {', '.join(sorted(unknown))}")
    return chosen


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def session(folder: Path, memory: str) -> SparkSession:
    import headrace.spark
    from headrace.spark.jars import kafka_jars

    settings = {**SETTINGS, "spark.driver.memory": memory, "spark.local.dir": str(folder / "spark")}
    settings["spark.jars"] = ",".join(map(str, kafka_jars()))
    settings["spark.sql.warehouse.dir"] = str(folder / "warehouse")
    return headrace.spark.session("bench", "local[2]", **settings)


def machine(chosen: argparse.Namespace) -> dict[str, str]:
    from pyspark import __version__

    from bench.spark_work import KEY_BYTES, PARTITIONS, VALUE_BYTES
    from headrace.spark.jars import kafka_jars

    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    jars = [jar.stem.rpartition("-") for jar in kafka_jars()]
    versions = {name: version for name, _, version in jars}
    connector = next(version for name, version in versions.items() if name.startswith("spark-sql-kafka"))
    return {
        "machine": f"{os.cpu_count()} cores, {model[0].partition(': ')[2] if model else platform.machine()}",
        "versions": f"Python {platform.python_version()}, Spark {__version__} (local[2], {chosen.memory} heap), its "
        f"connector {connector} with kafka-clients {versions['kafka-clients']}",
        "rows": f"{chosen.rows:,} read, {chosen.written:,} written a round; keys of {KEY_BYTES} B, values of "
        f"{VALUE_BYTES} B, {PARTITIONS} partitions",
        "run": f"{chosen.rounds} rounds after {chosen.warm:,} rows a way to warm up; load average of the machine "
        f"{os.getloadavg()[1]:.0f} before",
    }


class Meter:
    """CPU time of all that takes part, while a piece of work runs."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def measure(self, work: Callable[[], int]) -> Sample:
        before, began = self._so_far(), time.perf_counter()
        count = work()
        wall_s, after = time.perf_counter() - began, self._so_far()
        return Sample(count, wall_s, {kind: after[kind] - before.get(kind, 0.0) for kind in after})

    def _so_far(self) -> dict[str, float]:
        seconds = self._watch.cpu_s()
        driver_s = time.process_time() - self._watch.own_s  # the driver is a Python process too
        return {**seconds, "Python": seconds.get("Python", 0.0) + driver_s}


def kind_of(broker: int) -> Callable[[Process], str]:
    return lambda process: "broker" if process.pid == broker else "JVM" if process.name == "java" else "Python"


class Round:
    """Each piece of work once, by each way in turn."""

    def __init__(self, bench: Bench, meter: Meter, ways: list[Way], written: int) -> None:
        self._bench, self._meter, self._ways, self._written = bench, meter, ways, written
        self._topics = 0

    def run(self, parts: list[str], number: int, results: Results | None, label: str) -> None:
        for part in parts:
            turn = number % len(self._ways)
            for way in self._ways[turn:] + self._ways[:turn]:
                sample = self._sample(part, way)
                say(f"{label}: {part}, {way.name}: {sample.total_s:.1f} CPU s, {sample.wall_s:.1f} s")
                if results is not None:
                    results.add(part, way.name, sample)

    def _sample(self, part: str, way: Way) -> Sample:
        self._bench.touch(part, way)
        if part == "small_batches":
            waited: list[float] = []
            sample = self._meter.measure(partial(self._bench.small_batches, way, waited))
            return sample._replace(batch_ms=waited[0])
        if part == "write":
            return self._write(way)
        return self._meter.measure(partial(getattr(self._bench, part), way))

    def _write(self, way: Way) -> Sample:
        import headrace
        from bench.spark_work import PARTITIONS

        self._topics += 1
        topic = f"bench-written-{self._topics}"
        with headrace.connect(self._bench.address) as client:
            client.admin.create_topic(topic, partitions=PARTITIONS)
            sample = self._meter.measure(partial(self._bench.write, way, topic, self._written))
            there = self._bench.written(topic)
            client.admin.delete_topic(topic)
        assert there == sample.done, f"{way.name} wrote {there:,} rows of {sample.done:,}"
        return sample


def measure(chosen: argparse.Namespace, folder: Path, results: Results) -> None:
    results.machine = machine(chosen)
    server = Headrace(folder, Path(sys.executable).with_name("headrace"))
    server.start()
    try:
        assert server.process is not None
        with Watch(kind_of(server.process.pid)) as watch:
            run(chosen, server.address, folder, watch, results)
    finally:
        server.stop()


def run(chosen: argparse.Namespace, address: str, folder: Path, watch: Watch, results: Results) -> None:
    from bench.spark_work import WAYS, Bench

    spark = session(folder, chosen.memory)
    try:
        bench = Bench(spark, address, chosen.rows)
        bench.fill()
        say(f"{chosen.rows:,} rows are there")
        bench.check()
        rounds = Round(bench, Meter(watch), [way for way in WAYS if way.name in chosen.ways], chosen.written)
        for number in range(max(1, chosen.warm // (3 * chosen.rows))):  # three of the parts read the topic
            rounds.run(chosen.only, number, None, "warming")
        for number in range(chosen.rounds):
            rounds.run(chosen.only, number, results, f"round {number + 1} of {chosen.rounds}")
    finally:
        spark.stop()


def main() -> int:
    chosen = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is stopped then too
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    results = Results()
    failure: Exception | None = None
    try:
        measure(chosen, folder, results)
    except (HeadraceError, ServerError, OSError) as error:
        failure = error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if results.samples:
        print(text_table(results))
        for path in write(results, RESULTS, "spark" if chosen.keep and not failure else "spark-latest"):
            say(f"wrote {path.relative_to(ROOT)}")
    if failure:
        print(f"bench-spark: {failure}", file=sys.stderr)
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
