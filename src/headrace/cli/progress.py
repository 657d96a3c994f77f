"""A bar on standard error for what takes long; nothing at all where nobody looks (no terminal, `-q`)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from headrace.cli.options import Options, current

Advance = Callable[[int], None]


@contextlib.contextmanager
def progress(title: str, total: int | None, unit: str = "records", options: Options | None = None) -> Iterator[Advance]:
    """`advance(n)` says that n more of the total are done. `unit` "bytes" shows sizes."""
    options = options or current()
    if options.quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    count = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    console = Console(stderr=True, no_color=not options.color)
    named = () if unit == "bytes" else (TextColumn(unit),)  # sizes name their unit themselves
    shown = (TextColumn("{task.description}"), BarColumn(), count, *named, TimeRemainingColumn())
    with Progress(*shown, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)
