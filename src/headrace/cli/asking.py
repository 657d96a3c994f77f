"""Before something is destroyed: `--yes`, or a typed yes on a terminal; `--dry-run` only says what would go.

A script that forgot `--yes` is told so and changes nothing: silence is never a yes.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace.cli.exits import Refusal
from headrace.cli.options import note

Yes = Annotated[bool, typer.Option("-y", "--yes", help="do it without asking")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="only say what would be done")]


def confirm(what: str, *, yes: bool, dry_run: bool | None = None) -> bool:
    """`what` completes "This will …". True: go on. False: a dry run, and it was said. Anything else is a refusal.
    `dry_run` is None for a command that knows none."""
    if dry_run:
        note(f"This would {what}. Nothing was done (--dry-run).")
        return False
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        next_step = "--yes does it" if dry_run is None else "--yes does it; --dry-run shows it"
        raise Refusal(f"this would {what}, and nobody is there to be asked", next_step)
    print(f"This will {what}.\nType yes to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() != "yes":
        raise Refusal("nothing was done", "type the word yes, or give --yes")
    return True
