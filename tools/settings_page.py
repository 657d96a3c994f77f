"""Pastes the table of topic settings into docs/operating.md, from the one place where they are defined."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.broker.config import MAX_LONG, SETTINGS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operating.md"
BEGIN = "<!-- topic settings: made by tools/settings_page.py -->\n"
END = "<!-- /topic settings -->"


def table() -> str:
    rows = ["| setting | default | does |", "|---|---|---|"]
    for setting in SETTINGS.values():
        default = "never" if setting.default == MAX_LONG else str(setting.default)
        rows.append(f"| `{setting.name}` | {default} | {setting.doc} |")
    return "\n".join(rows) + "\n"


def page(text: str) -> str:
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + BEGIN + table() + END + tail


def main() -> int:
    PAGE.write_text(page(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
