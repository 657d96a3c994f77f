"""From samples to a table, a JSON file and a plot. Medians, with the least and the greatest beside them,
because the machines are shared; a goal is judged on medians.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.floor import WAYS
from bench.rows import GROWTH, METRICS, ROWS, Goal, Row


@dataclass
class Results:
    """Samples of one run: samples[row][server][metric] and growth[row][count], one value per round."""

    machine: dict[str, str] = field(default_factory=dict)
    samples: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)
    growth: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    sync_p50_ms: list[float] = field(default_factory=list)
    floors: dict[str, list[float]] = field(default_factory=dict)  # way -> CPU seconds per GiB without a broker

    def add(self, server: str, seen: dict[str, dict[str, float]]) -> None:
        for row, metrics in seen.items():
            for metric, value in metrics.items():
                by_server = self.samples.setdefault(row, {})
                by_server.setdefault(server, {}).setdefault(metric, []).append(value)

    def add_growth(self, row: str, seen: dict[int, float]) -> None:
        for count, value in seen.items():
            self.growth.setdefault(row, {}).setdefault(count, []).append(value)

    def median(self, row: str, server: str, metric: str) -> float | None:
        values = self.samples.get(row, {}).get(server, {}).get(metric)
        return statistics.median(values) if values else None

    def ratio(self, row: str, metric: str, server: str = "headrace") -> float | None:
        ours, theirs = self.median(row, server, metric), self.median(row, "kafka", metric)
        return ours / theirs if ours is not None and theirs else None

    def spread(self, row: str, server: str, metric: str) -> str:
        values = self.samples.get(row, {}).get(server, {}).get(metric)
        if not values:
            return "-"
        digits = METRICS[metric].digits
        middle = f"{statistics.median(values):.{digits}f}"
        return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f}-{max(values):.{digits}f})"

    def judged(self, row: Row, goal: Goal) -> float | None:
        if goal.against == "kafka":
            return self.ratio(row.name, goal.metric)
        if goal.against == "itself":
            return self.median(row.name, "headrace", goal.metric)
        columns = self.equal_columns(row)
        return max(columns) / columns[0] if columns else None

    def equal_columns(self, row: Row) -> list[float]:
        """Medians of what grows, where the work is the same."""
        columns = self.growth.get(row.name, {}).items()
        return [statistics.median(values) for count, values in columns if count >= row.equal_from]

    def verdict(self, row: Row, metric: str) -> str:
        for goal in row.goals:
            measured = self.judged(row, goal)
            if goal.metric == metric and measured is not None:
                sign = "<=" if goal.bound == "at most" else ">="
                times = "" if goal.against == "itself" else "x"
                return f"{'PASS' if goal.met(measured) else 'short'} ({sign} {goal.value:g}{times})"
        return ""


def lines(results: Results) -> list[tuple[str, ...]]:
    """The table, row by row: what, metric, ours, Kafka's, ratio, goal, and what a server that keeps nothing has."""
    table: list[tuple[str, ...]] = [("work", "metric", "headrace", "kafka", "ratio", "goal", "no broker")]
    for row in ROWS.values():
        title = row.title
        for metric, about in METRICS.items():
            ours, theirs = (results.spread(row.name, server, metric) for server in ("headrace", "kafka"))
            if ours == theirs == "-":
                continue
            ratio = results.ratio(row.name, metric)
            shown = f"{ratio:.2f}x" if ratio is not None else "-"
            of_none = without_broker(results, row, metric)
            what, verdict = f"{about.title}, {about.unit}", results.verdict(row, metric)
            table.append((title, what, ours, theirs, shown, verdict, of_none))
            title = ""
    for row in GROWTH.values():
        table += growth_lines(results, row)
    return table


def without_broker(results: Results, row: Row, metric: str) -> str:
    """With its ratio to Kafka, where that is known."""
    alone, ratio = results.spread(row.name, "nothing", metric), results.ratio(row.name, metric, "nothing")
    if alone == "-":
        return ""
    return alone if ratio is None else f"{alone}: {ratio:.2f}x"


def growth_lines(results: Results, row: Row) -> list[tuple[str, ...]]:
    """Ours alone, by count of what grows; the verdict stands on the last line."""
    table: list[tuple[str, ...]] = []
    title, noun = row.title, row.name.partition("_")[0]
    columns = results.growth.get(row.name, {})
    first = next(iter(results.equal_columns(row)), 0.0)
    for count, values in columns.items():
        middle = statistics.median(values)
        spread = f"{middle:.3f} ({min(values):.3f}-{max(values):.3f})"
        verdict = results.verdict(row, "cpu") if count == list(columns)[-1] else ""
        ratio = f"{middle / first:.2f}x" if first else "-"
        table.append((title, f"{count:,} {noun}, CPU s per M", spread, "-", ratio, verdict, ""))
        title = ""
    return table


def text_table(results: Results) -> str:
    table = lines(results)
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    rendered = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
    rendered.insert(1, "  ".join("-" * width for width in widths))
    about = [f"{key}: {value}" for key, value in machine(results).items()]
    told = "medians (least-greatest); ratio is headrace : kafka, with no broker: a server that keeps nothing : kafka"
    return "\n".join([*rendered, "", *about, told])


def machine(results: Results) -> dict[str, str]:
    """Where it was measured; with what the disk itself needs for a sync, which bounds every synced figure."""
    about = dict(results.machine)
    if results.sync_p50_ms:
        about["disk"] = f"4 KiB append + fdatasync p50 {_spread(results.sync_p50_ms)} ms"
    if results.floors:
        into, out, unseen, piped = (_spread(results.floors[way]) for way in WAYS)
        about["floor"] = (
            f"moving 1 GiB (10 M of 100 B, 1 M of 1 KiB) without any broker costs {into} CPU s in (receive, write), "
            f"{out} out (read, send), {unseen} out by sendfile and {piped} out through a pipe"
        )
    return about


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def as_json(results: Results) -> dict[str, Any]:
    return {
        "machine": machine(results),
        "table": lines(results),
        "samples": results.samples,
        "growth": results.growth,
    }


def write(results: Results, folder: Path, name: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    data, picture = folder / f"{name}.json", folder / f"{name}.png"
    data.write_text(json.dumps(as_json(results), indent=1) + "\n")
    plot(results, picture)
    return [data, picture]


def plot(results: Results, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (cost, speed, growth) = pyplot.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
    bars(cost, results, "cpu", "server CPU, seconds per million messages (less is better)")
    bars(speed, results, "rate", "rate, million messages per second (more is better)")
    growth.set_title("our CPU per message as the node grows (1 = the smallest of equal work)", fontsize=9)
    for row in GROWTH.values():
        columns = {count: statistics.median(values) for count, values in results.growth.get(row.name, {}).items()}
        first = next(iter(results.equal_columns(row)), None)
        if first:
            growth.plot(list(columns), [v / first for v in columns.values()], marker="o", label=row.name)
    growth.axhline(1.2, color="grey", linestyle=":", linewidth=1)
    growth.set_xscale("log")
    growth.set_ylim(0, 2)
    if results.growth:
        growth.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def bars(axes: Any, results: Results, metric: str, title: str) -> None:
    rows = [name for name, by_server in results.samples.items() if any(metric in m for m in by_server.values())]
    rows = [name for name in rows if name != "latency"]  # at 1,000 msg/s it is another scale
    for shift, server, colour in ((-0.2, "headrace", "#1f77b4"), (0.2, "kafka", "#bbbbbb")):
        values = [results.median(name, server, metric) or 0.0 for name in rows]
        axes.barh([i + shift for i in range(len(rows))], values, height=0.38, label=server, color=colour)
    axes.set_yticks(range(len(rows)), [name.replace("_", " ") for name in rows])
    axes.invert_yaxis()
    axes.set_title(title, fontsize=9)
    if not rows:
        return
    axes.set_xscale("log")
    axes.legend(fontsize=8)
