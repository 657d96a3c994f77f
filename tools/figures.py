"""Pastes the tables of the last kept benchmarks (`make bench ARGS=--keep`) into the pages that show them,
between their markers, so that no figure there is typed by hand.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
README = ROOT / "README.md"
SPARK = ROOT / "docs" / "spark.md"
# NAME.json and NAME.png, and the page that shows them between <!-- NAME --> and <!-- /NAME -->
KEPT = {"figures": README, "doors": README, "spark": SPARK}


def markdown(picture: str, data: dict[str, object]) -> str:
    table, machine = data["table"], data["machine"]
    assert isinstance(table, list) and isinstance(machine, dict)
    head, *rows = table
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).strip() for cell in row) + " |" for row in rows]
    about = "; ".join(str(value) for value in machine.values())
    return "\n".join([*lines, "", f"{about}.", "", f"![the same as bars]({picture})"])


def pasted(page: str, name: str, text: str) -> str:
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    marked = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    return marked.sub(lambda _: f"{begin}\n\n{text}\n\n{end}", page, count=1)


def main() -> int:
    for name, page in KEPT.items():
        file = RESULTS / f"{name}.json"
        if not file.exists():
            print(f"no kept {name}: run make bench ARGS=--keep (make bench-spark ARGS=--keep) first")
            return 1
        picture = os.path.relpath(file.with_suffix(".png"), page.parent)
        page.write_text(pasted(page.read_text(), name, markdown(picture, json.loads(file.read_text()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
