"""A page of what a pipeline did, batch by batch: `report.html`, with its plots in it, and where matplotlib is installed
the same plots as `report.png`. A run that failed has its page too, with the reason."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.spark.pipelines.progress import History, Progress

PICTURE, PAGE = "report.png", "report.html"
PLOTS: Final[tuple[tuple[str, Callable[[Progress], float]], ...]] = (
    ("rows a second", lambda one: one.rows_per_s),
    ("seconds a batch", lambda one: one.seconds),
    ("lag, records", lambda one: float(one.lag or 0)),
    ("state, MiB", lambda one: one.state_bytes / (1 << 20)),
)
SHOWN: Final = 200  # of the newest batches in the page's table
POINTS: Final = 1000  # of one line: more would not be seen
WIDTH, HEIGHT, EDGE = 460, 150, 20  # of a plot


def draw(name: str, history: History, home: Path, error: str | None = None) -> list[Path]:
    """The page, and the picture where there is what draws it (`headrace[plot]`)."""
    seen = history.seen
    (home / PAGE).write_text(page(name, history, error), encoding="utf-8")
    try:
        import matplotlib
    except ImportError:
        return [home / PAGE]
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(10, 6), layout="constrained", sharex=True)
    batches = [one.batch for one in seen]
    for axis, (title, value) in zip(axes.flat, PLOTS, strict=True):
        axis.plot(batches, [value(one) for one in seen], marker="o", markersize=3, linewidth=1)
        axis.set_title(title, fontsize=9)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    figure.suptitle(name)
    figure.savefig(home / PICTURE, dpi=110)
    pyplot.close(figure)
    return [home / PAGE, home / PICTURE]


def page(name: str, history: History, error: str | None = None) -> str:
    seen = history.seen
    head = ("batch", "began", "rows", "seconds", "rows/s", "lag", "state rows", "late")
    rows = "\n".join(
        "<tr>"
        + "".join(
            f"<td>{html.escape(cell)}</td>"
            for cell in (
                str(one.batch), one.at, f"{one.rows:,}", f"{one.seconds:.2f}", f"{one.rows_per_s:,.0f}",
                "?" if one.lag is None else f"{one.lag:,}", f"{one.state_rows:,}", f"{one.late:,}",
            )
        )
        + "</tr>"
        for one in reversed(seen[-SHOWN:])
    )  # fmt: skip
    failed = f"<p><strong>It failed: {html.escape(error)}</strong></p>" if error else ""
    plots = "\n".join(plot(title, seen, value) for title, value in PLOTS) if seen else ""
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(name)}</title>"
        "<style>body{font:15px system-ui;margin:2em;max-width:70em}td,th{padding:2px 10px;text-align:right}"
        "svg{margin:0 1em 1em 0}svg text{font-size:11px}</style>"
        f"<h1>{html.escape(name)}</h1>{failed}<p>{history.rows:,} rows in {history.batches:,} batches.</p>\n"
        f"<div>{plots}</div>"
        f"<table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>\n{rows}</table></html>\n"
    )


def plot(title: str, seen: Sequence[Progress], value: Callable[[Progress], float]) -> str:
    """A line over the batches, from 0 to the most that there was."""
    every = -(-len(seen) // POINTS)
    shown = [*seen[::every]]
    values = [value(one) for one in shown]
    most, first, last = max(values), shown[0].batch, shown[-1].batch
    width, height = WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE
    points = [
        (
            EDGE + (one.batch - first) / max(1, last - first) * width,
            HEIGHT - EDGE - (number / most if most else 0.0) * height,
        )
        for one, number in zip(shown, values, strict=True)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="#1f77b4"/>' for x, y in points if len(points) < 100)
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{title} over batches">'
        f'<rect x="{EDGE}" y="{EDGE}" width="{width}" height="{height}" fill="none" stroke="#ccc"/>'
        f'<polyline points="{line}" fill="none" stroke="#1f77b4"/>{dots}'
        f'<text x="{EDGE}" y="{EDGE - 6}">{title}, up to {most:,.4g}</text>'
        f'<text x="{EDGE}" y="{HEIGHT - 6}">batch {first}</text>'
        f'<text x="{WIDTH - EDGE}" y="{HEIGHT - 6}" text-anchor="end">batch {last}</text></svg>'
    )
