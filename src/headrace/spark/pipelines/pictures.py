"""A page of plots of what a pipeline did, batch by batch: `report.html` with its picture, `report.png`."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.spark.pipelines.progress import Progress

PICTURE, PAGE = "report.png", "report.html"
PLOTS: Final[tuple[tuple[str, Callable[[Progress], float]], ...]] = (
    ("rows a second", lambda one: one.rows_per_s),
    ("seconds a batch", lambda one: one.seconds),
    ("lag, records", lambda one: float(one.lag or 0)),
    ("state, MiB", lambda one: one.state_bytes / (1 << 20)),
)
SHOWN: Final = 200  # of the newest batches in the page's table


def draw(name: str, seen: Sequence[Progress], home: Path) -> list[Path]:
    """Needs matplotlib (`headrace[plot]`)."""
    import matplotlib

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
    (home / PAGE).write_text(page(name, seen), encoding="utf-8")
    return [home / PAGE, home / PICTURE]


def page(name: str, seen: Sequence[Progress]) -> str:
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
    total = sum(one.rows for one in seen)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(name)}</title>"
        "<style>body{font:15px system-ui;margin:2em;max-width:70em}td,th{padding:2px 10px;text-align:right}"
        "img{max-width:100%}</style>"
        f"<h1>{html.escape(name)}</h1><p>{total:,} rows in {len(seen):,} batches.</p>"
        f'<img src="{PICTURE}" alt="rows a second, seconds a batch, lag and state over batches">'
        f"<table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>\n{rows}</table></html>\n"
    )
