"""Runs the sample of every pipeline on the orders of the examples, and draws what came of it: docs/pictures/*.png.

    python -m tools.pipelines_page

The samples are those that `headrace pipeline show KIND` prints, with the node of this program; so what the page shows
is what a newcomer gets.
"""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot

import headrace
from examples.orders import last, orders, send
from headrace.spark import pipelines
from headrace.spark.pipelines.kinds import KINDS
from headrace.testing.served import ServedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
TOPICS = (
    "orders",
    "orders.per-minute",
    "orders.once",
    "orders.in-order",
    "orders.again",
    "orders.checked",
    "orders.bad",
)


def read(address: str, topic: str) -> list[dict[str, Any]]:
    with (
        headrace.connect(address) as client,
        client.consumer(topic, isolation="read_committed", follow=False) as consumer,
    ):
        return [json.loads(record.value or b"{}") for record in consumer]


def figure(title: str) -> tuple[Any, Any]:
    made, axes = pyplot.subplots(figsize=(7, 2.8), layout="constrained")
    axes.set_title(title, fontsize=9)
    axes.grid(alpha=0.3)
    return made, axes


def at(row: dict[str, Any], name: str = "at") -> datetime:
    return datetime.fromisoformat(row[name])


def draw_rollup(rows: list[dict[str, Any]]) -> Any:
    made, axes = figure("orders a minute, by country")
    for country in sorted({row["country"] for row in rows}):
        own = sorted((at(row, "window_start"), row["orders"]) for row in rows if row["country"] == country)
        axes.plot([when for when, _ in own], [count for _, count in own], marker="o", markersize=3, label=country)
    axes.legend(fontsize=8)
    return made


def draw_dedup(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Any:
    made, axes = figure("orders that came, and those with an id that was new")
    axes.barh(["came", "kept"], [len(before), len(after)], color=["#bbbbbb", "#1f77b4"])
    return made


def draw_order(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Any:
    made, axes = figure("the time of each order less that of the latest before it, seconds (0: in order)")
    for rows, label, colour in ((before, "as they came", "#bbbbbb"), (after, "in order", "#1f77b4")):
        latest: dict[str, datetime] = {}
        late = []
        for row in rows:
            newest = max(latest.get(row["country"], at(row)), at(row))
            latest[row["country"]] = newest
            late.append((at(row) - newest).total_seconds())
        axes.plot(late, linewidth=0.8, label=label, color=colour)
    axes.legend(fontsize=8)
    return made


def draw_archive(files: dict[str, int]) -> Any:
    made, axes = figure("rows in the archive, by date")
    axes.barh(list(files), list(files.values()), color="#1f77b4")
    return made


def draw_deadletter(good: int, bad: int) -> Any:
    made, axes = figure("orders that passed the checks, and those that were set aside")
    axes.barh(["orders.checked", "orders.bad"], [good, bad], color=["#1f77b4", "#d62728"])
    return made


def draw_replay(rows: int, seconds: float) -> Any:
    made, axes = figure("rows replayed from the archive over time, 1,000 a second asked for")
    axes.plot([0, seconds], [0, rows], marker="o", color="#1f77b4")
    axes.set_xlabel("seconds", fontsize=8)
    return made


def main() -> int:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, ServedBroker(Path(folder, "node")) as broker:
        address = broker.address
        with headrace.connect(address) as client:
            for name in TOPICS:
                client.admin.create_topic(name)
        send(address, [*orders(), last()])
        spark = pipelines.session("pages", "local[2]", {"spark.driver.memory": "1g"})
        try:
            pictures = run_all(spark, address, Path(folder))
        finally:
            spark.stop()
    for name, made in pictures.items():
        made.savefig(PICTURES / f"{name}.png", dpi=110)
        print(f"drew docs/pictures/{name}.png")
    return 0


def run_all(spark: SparkSession, address: str, folder: Path) -> dict[str, Any]:
    from pyspark.sql import functions as sf

    reports = {}
    for kind in ("archive", "rollup", "dedup", "order", "replay", "deadletter"):
        text = KINDS[kind].sample.replace("127.0.0.1:9092", address).replace("archive/orders", f"{folder}/files")
        settings = pipelines.parse(f'folder = "{folder}/{kind}"\n{text}', kind)
        reports[kind] = pipelines.run(spark, settings, print)
    came = read(address, "orders")[:-1]
    counted = spark.read.parquet(f"{folder}/files").groupBy("date").agg(sf.count("*").alias("n")).orderBy("date")
    return {
        "archive": draw_archive({str(row["date"]): row["n"] for row in counted.collect()}),
        "rollup": draw_rollup(read(address, "orders.per-minute")),
        "dedup": draw_dedup(came, read(address, "orders.once")),
        "order": draw_order(came, read(address, "orders.in-order")),
        "deadletter": draw_deadletter(len(read(address, "orders.checked")), len(read(address, "orders.bad"))),
        "replay": draw_replay(reports["replay"].rows, reports["replay"].seconds),
    }


if __name__ == "__main__":
    sys.exit(main())
