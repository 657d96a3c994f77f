"""Writes the table of metrics into docs/metrics.md, from the place where metrics are defined."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.node.metrics.catalogue import GROUPS, Metric

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
BEGIN = "<!-- metrics: made by tools/metrics_page.py -->\n"
END = "<!-- /metrics -->"


def page(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


def table() -> str:
    return "\n".join(
        f"### {title}\n\n| name | kind | labels | meaning |\n|---|---|---|---|\n" + "".join(map(_row, group))
        for title, group in GROUPS.items()
    )


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |\n"


def main() -> int:
    PAGE.write_text(page(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
