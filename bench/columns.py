"""`python -m bench.columns`: what reading a topic into Arrow tables costs this process, in CPU time per row.

A node of ours is filled once for each size and compression; then this process reads everything with
`client.columns`, everything from the socket to the finished tables included, several times. The best round counts,
because a busy machine can only add to it. The goal is judged on all columns of 100 B records without compression; when
it is not reached, the program ends with 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import headrace
from bench.servers import Headrace
from headrace.client.blocking import Client
from headrace.records import kernel
from headrace.records.codec import BatchOptions
from headrace.records.columns import from_arrow

CASES = ((100, "none"), (100, "lz4"), (100, "zstd"), (1024, "none"))
GOAL = (100, "none", "all columns")
GOAL_US = 0.1
BATCH_BYTES = 1_000_000


def fill(client: Client, topic: str, rows: int, size: int, compression: str, partitions: int) -> None:
    """Values that shrink a little, as real ones do."""
    client.admin.create_topic(topic, partitions=partitions)
    values = [b"%012d" % row + b"abcdefgh" * ((size - 12) // 8) for row in range(10_000)]
    table = pa.record_batch({"value": pa.array(values, pa.binary())})
    batches = from_arrow(table, BatchOptions(compression=compression), max_batch_bytes=BATCH_BYTES)
    written, partition = 0, 0
    while written < rows:
        for batch in batches:
            client.produce_batches(topic, partition % partitions, batch, 1)
            partition += 1
        written += table.num_rows


def read(client: Client, topic: str, names: tuple[str, ...]) -> tuple[int, float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    rows = 0
    with client.columns(topic, columns=names, follow=False, isolation="read_committed") as reader:
        for table in reader:
            rows += table.num_rows
    return rows, time.process_time() - cpu, time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU time per row of reading into Arrow tables")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    print(f"kernels: {'native' if kernel.NATIVE else kernel.REASON}")
    costs_us: dict[tuple[int, str, str], float] = {}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        server = Headrace(Path(folder), Path(sys.executable).with_name("headrace"))
        server.prepare()
        server.start()
        try:
            with headrace.connect(server.address) as client:
                for size, compression in CASES:
                    for label, cost_us in measure(client, chosen, size, compression).items():
                        costs_us[size, compression, label] = cost_us
        finally:
            server.stop()
    is_reached, words = verdict(costs_us[GOAL])
    print(words)
    return 0 if is_reached else 1


def verdict(cost_us: float) -> tuple[bool, str]:
    size, compression, label = GOAL
    word = "PASS" if cost_us <= GOAL_US else "short"
    shown = f"{size} B {compression} {label}: {cost_us:.3f} µs CPU a row"
    return cost_us <= GOAL_US, f"{shown}  goal {GOAL_US:g} µs  {word}"


def measure(client: Client, chosen: argparse.Namespace, size: int, compression: str) -> dict[str, float]:
    """µs of CPU a row, for all columns and for the value alone."""
    found = {}
    topic = f"columns-{size}-{compression}"
    fill(client, topic, chosen.rows, size, compression, chosen.partitions)
    for label, names in (("all columns", headrace_names()), ("value only", ("value",))):
        rounds = [read(client, topic, names) for _ in range(chosen.rounds)]
        rows = rounds[0][0]
        cpu, wall = min(one[1] for one in rounds), min(one[2] for one in rounds)
        found[label] = cpu / rows * 1e6
        print(
            f"{size:5} B {compression:5} {label:12} {cpu / rows * 1e6:.3f} µs CPU a row,"
            f" {rows / cpu / 1e6:5.1f} M rows per CPU second, {rows / wall / 1e6:5.1f} M rows/s"
        )
    return found


def headrace_names() -> tuple[str, ...]:
    from headrace.client.columns import NAMES

    return NAMES


if __name__ == "__main__":
    sys.exit(main())
