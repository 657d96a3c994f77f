"""Prints the part of the lock that some packages need: themselves and what they depend on, with their hashes.

    python tools/locked.py hatchling maturin > build.txt && pip install --require-hashes -r build.txt

For whoever builds Headrace and has no use for its tests' forty other tools. Each entry of the lock says which others
it is there for, which is all that has to be known.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "requirements" / "dev.txt"
ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==.*\n(?:[ \t].*\n)*", re.MULTILINE)
WANTED_BY = re.compile(r"#\s+(?:via\s+)?([A-Za-z0-9._-]+)$", re.MULTILINE)


def locked(names: list[str], lock: str) -> str:
    entries = {match[1]: match[0] for match in ENTRY.finditer(lock)}
    if missing := [name for name in names if name not in entries]:
        raise SystemExit(f"locked: not in the lock: {', '.join(missing)}")
    chosen = set(names)
    while more := {name for name, entry in entries.items() if chosen.intersection(WANTED_BY.findall(entry))} - chosen:
        chosen |= more
    return "".join(entry for name, entry in entries.items() if name in chosen)


if __name__ == "__main__":
    print(locked(sys.argv[1:], LOCK.read_text()), end="")
