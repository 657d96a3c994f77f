"""Pastes the table of the last kept benchmark (`make bench ARGS=--keep`) into README.md, between its markers,
so that no figure there is typed by hand.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "bench" / "results" / "figures.json"
README = ROOT / "README.md"
BEGIN, END = "<!-- figures -->", "<!-- /figures -->"


def markdown(data: dict[str, object]) -> str:
    table, machine = data["table"], data["machine"]
    assert isinstance(table, list) and isinstance(machine, dict)
    head, *rows = table
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).strip() for cell in row) + " |" for row in rows]
    about = "; ".join(str(value) for value in machine.values())
    return "\n".join([*lines, "", f"{about}.", "", "![the same as bars](bench/results/figures.png)"])


def main() -> int:
    if not FIGURES.exists():
        print("no kept figures: run make bench ARGS=--keep first")
        return 1
    page = README.read_text()
    pasted = f"{BEGIN}\n\n{markdown(json.loads(FIGURES.read_text()))}\n\n{END}"
    marked = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    README.write_text(marked.sub(lambda _: pasted, page, count=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
