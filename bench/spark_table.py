"""From samples to a table, a JSON file and a plot, for Spark. Medians, with the least and the greatest beside them; a
goal is judged on medians, against the connector as tuned, and that of the write, whose baseline was measured with the
connector as it comes, against both.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

NAMES = {"headrace": "headrace", "default": "connector", "tuned": "connector, tuned"}
KINDS = ("JVM", "Python", "broker")


class Row(NamedTuple):
    title: str
    unit: str  # what there is more of per CPU second
    goal: float | None  # at least so many times what the tuned connector does
    plain_goal: float | None = None  # and what the connector does as it comes


ROWS = {
    "read_all": Row("batch read, 7 columns", "M rows", 1.25),
    "read_value": Row("batch read, value only", "M rows", 2.0),
    "read_stream": Row("stream, AvailableNow, 7 columns", "M rows", None),
    "write": Row("batch write: ours exactly once, its at least once", "M rows", 2.0, 2.0),
    "small_batches": Row("micro-batches of 100 rows", "micro-batches", None),
}


class Sample(NamedTuple):
    done: int  # rows or micro-batches
    wall_s: float
    cpu_s: dict[str, float]  # by kind of process
    batch_ms: float | None = None

    @property
    def total_s(self) -> float:
        return sum(self.cpu_s.values())


@dataclass
class Results:
    machine: dict[str, str] = field(default_factory=dict)
    samples: dict[str, dict[str, list[Sample]]] = field(default_factory=dict)  # by row and way

    def add(self, row: str, way: str, sample: Sample) -> None:
        self.samples.setdefault(row, {}).setdefault(way, []).append(sample)

    def rates(self, row: str, way: str) -> list[float]:
        """What it did per CPU second."""
        scale = 1e6 if ROWS[row].unit.startswith("M ") else 1.0
        return [one.done / scale / one.total_s for one in self.samples[row].get(way, [])]

    def ratio(self, row: str, way: str) -> float | None:
        ours, theirs = self.rates(row, "headrace"), self.rates(row, way)
        return statistics.median(ours) / statistics.median(theirs) if ours and theirs else None

    def verdict(self, row: str) -> str:
        goals = {"default": ROWS[row].plain_goal, "tuned": ROWS[row].goal}
        told = []
        for way, goal in goals.items():
            ratio = self.ratio(row, way)
            if goal is not None and ratio is not None:
                of = "" if None in goals.values() else f" {NAMES[way]}" if way == "default" else " tuned"
                told.append(f"{'PASS' if ratio >= goal else 'short'} (>= {goal:g}x{of})")
        return ", ".join(told)


def spread(values: list[float], digits: int = 2) -> str:
    if not values:
        return "-"
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def lines(results: Results) -> list[list[str]]:
    head = ["work", "metric", *NAMES.values(), "ratio to connector", "to tuned", "goal"]
    table = [head]
    for name, by_way in results.samples.items():
        row = ROWS[name]
        ratios = [_times(results.ratio(name, way)) for way in ("default", "tuned")]
        rates = [spread(results.rates(name, way)) for way in NAMES]
        table.append([row.title, f"{row.unit} per CPU s", *rates, *ratios, results.verdict(name)])
        shares = [_shares(by_way.get(way, []), row) for way in NAMES]
        per = "M rows" if row.unit == "M rows" else "micro-batch"
        table.append(["", f"CPU s per {per}: {' + '.join(KINDS)}", *shares, "", "", ""])
        if any(one.batch_ms is not None for samples in by_way.values() for one in samples):
            waits = [spread([one.batch_ms or 0.0 for one in by_way.get(way, [])], 0) for way in NAMES]
            table.append(["", "ms per micro-batch", *waits, "", "", ""])
        else:
            walls = [spread([one.done / 1e6 / one.wall_s for one in by_way.get(way, [])]) for way in NAMES]
            table.append(["", "M rows per s", *walls, "", "", ""])
    return table


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


def _shares(samples: list[Sample], row: Row) -> str:
    if not samples:
        return "-"
    scale = 1e6 if row.unit == "M rows" else 1.0
    return " + ".join(
        f"{statistics.median(one.cpu_s.get(kind, 0.0) * scale / one.done for one in samples):.2f}" for kind in KINDS
    )


def text_table(results: Results) -> str:
    table = lines(results)
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    rendered = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
    rendered.insert(1, "  ".join("-" * width for width in widths))
    about = [f"{key}: {value}" for key, value in results.machine.items()]
    return "\n".join([*rendered, "", *about, "medians (least-greatest); ratio is headrace : connector, per CPU second"])


def write(results: Results, folder: Path, name: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    data, picture = folder / f"{name}.json", folder / f"{name}.png"
    samples = {
        row: {way: [one._asdict() for one in found] for way, found in by_way.items()}
        for row, by_way in results.samples.items()
    }
    content = {"machine": results.machine, "table": lines(results), "samples": samples}
    data.write_text(json.dumps(content, indent=1) + "\n")
    plot(results, picture)
    return [data, picture]


def plot(results: Results, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (rates, costs) = pyplot.subplots(1, 2, figsize=(13, 4.6), layout="constrained")
    rows = [row for row in results.samples if ROWS[row].unit == "M rows"]
    _bars(rates, results, rows, "million rows per CPU second, broker included (more is better)")
    rows = [row for row in results.samples if row not in rows]
    _bars(costs, results, rows, "micro-batches of 100 rows per CPU second (more is better)")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _bars(axes: Any, results: Results, rows: list[str], title: str) -> None:
    colours = {"headrace": "#1f77b4", "default": "#dddddd", "tuned": "#aaaaaa"}
    for turn, (way, colour) in enumerate(colours.items()):
        values = [statistics.median(results.rates(row, way) or [0.0]) for row in rows]
        axes.barh([at + (turn - 1) * 0.27 for at in range(len(rows))], values, 0.25, label=NAMES[way], color=colour)
    for at, row in enumerate(rows):
        goal, theirs = ROWS[row].goal, results.rates(row, "tuned")
        if goal is not None and theirs:
            wanted = statistics.median(theirs) * goal
            axes.plot([wanted, wanted], [at - 0.42, at + 0.42], color="black", linewidth=1, linestyle=":")
    axes.set_yticks(range(len(rows)), [ROWS[row].title for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_title(f"{title}\ndotted: the goal" if any(ROWS[row].goal for row in rows) else title, fontsize=9)
    if rows:
        axes.legend(fontsize=8)
