"""Pastes the help of every command into docs/cli.md, from the commands themselves.

The global options are the same everywhere and stand once, at the top. `serve` has its own page of settings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from headrace.cli import app, exits, options
from headrace.cli.commands import WIDTH
from headrace.cli.inside import Context, Shape, TyperGroup

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
BEGIN = "<!-- help: made by tools/help_page.py -->\n"
END = "<!-- /help -->"
GLOBAL = "\nGlobal options:\n"
SKIPPED = {"serve"}


def page(text: str) -> str:
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + BEGIN + pasted() + END + tail


def pasted() -> str:
    os.environ["COLUMNS"] = str(WIDTH)
    options.give("no_color", True)  # also where a person runs this
    root = app.root()
    ctx = Context(root, info_name=app.PROGRAM, **root.context_settings)
    whole = root.get_help(ctx)
    text = "\n## Exit codes\n\n| code | means |\n|---|---|\n"
    text += "".join(f"| {code} | {meaning} |\n" for code, meaning in exits.MEANINGS.items())
    text += "\n## headrace\n\n" + _block(whole)
    for path, help_text in _commands(root, ctx):
        text += f"\n## {path}\n\n" + _block(help_text.partition(GLOBAL)[0].rstrip())
    return text + "\n"


def _commands(group: Shape, ctx: Context) -> Iterator[tuple[str, str]]:
    assert isinstance(group, TyperGroup)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is None or name in SKIPPED:
            continue
        below = Context(command, info_name=name, parent=ctx, **command.context_settings)
        yield below.command_path, command.get_help(below)
        if isinstance(command, TyperGroup):
            yield from _commands(command, below)


def _block(text: str) -> str:
    return f"```text\n{text}\n```\n"


def main() -> int:
    PAGE.write_text(page(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
