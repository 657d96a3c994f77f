"""Where rows go and come from: a file, or the standard streams for `-`. `.gz` behind the name is unfolded on the way.

A file that is written appears under its name only when it is whole and synced: until then it is `.NAME.PID.new` beside
it, and a run that fails removes that. So nobody ever takes half an export for a whole one.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Literal, cast

from headrace.cli.exchange.rows import BadRow
from headrace.cli.exits import not_found, usage

STREAM = "-"
GZIP = ".gz"
GZIP_LEVEL = 6

Format = Literal["jsonl", "csv", "parquet"]
ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip


def format_of(name: str, asked: str | None) -> Format:
    """As asked, else by the name's ending; a stream is JSON lines unless it is told otherwise."""
    if asked is not None:
        if asked not in ENDINGS.values():
            raise usage(f"{asked!r} is not a format", "--format jsonl, csv or parquet")
        return cast(Format, asked)
    if name == STREAM:
        return "jsonl"
    told = told_format(name)
    if told is None:
        raise usage(f"the name {name!r} does not tell its format", "--format jsonl, csv or parquet")
    return told


def told_format(name: str) -> Format | None:
    """By the name's ending."""
    return ENDINGS.get(os.path.splitext(name.removesuffix(GZIP))[1].lower())


@contextlib.contextmanager
def written(name: str, form: Format) -> Iterator[BinaryIO]:
    if name == STREAM:
        if form == "parquet" and sys.stdout.isatty():
            raise usage("Parquet is nothing for a terminal", "name a file, or pipe it into something")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    folder, base = os.path.split(os.path.abspath(name))
    new = os.path.join(folder, f".{base}.{os.getpid()}.new")
    try:
        with _made(new, name) as file:
            with _folded(file, name, form) as out:
                yield out
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(new)
        raise


def _made(new: str, name: str) -> BinaryIO:
    try:
        return open(new, "wb")
    except OSError as error:
        error.filename = name  # what was asked for, not what stands in for it
        raise


@contextlib.contextmanager
def opened(name: str, form: Format) -> Iterator[BinaryIO]:
    if name == STREAM:
        if form == "parquet" and not sys.stdin.buffer.seekable():
            raise usage("Parquet cannot be read from a pipe: its index stands at its end", "name a file")
        yield _standard_input()
        return
    try:
        file = open(name, "rb")  # noqa: SIM115 (closed below)
    except FileNotFoundError:
        raise not_found(f"there is no file {name}") from None
    with file:
        if name.endswith(GZIP) and form != "parquet":
            with gzip.open(file, "rb") as inner:
                try:
                    yield cast(BinaryIO, inner)
                except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                    raise BadRow(f"{name} does not unfold as gzip: {error}") from error
        else:
            yield file


def _standard_input() -> BinaryIO:
    """One of our own, never closed: a thread may be waiting in it, and whoever closes it (as Python does at its end
    with its own) would wait too."""
    try:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    except io.UnsupportedOperation:  # not a file: something in memory stands in for it
        return sys.stdin.buffer


@contextlib.contextmanager
def _folded(file: BinaryIO, name: str, form: Format) -> Iterator[BinaryIO]:
    if name.endswith(GZIP) and form != "parquet":
        with gzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=file, mtime=0) as out:
            yield cast(BinaryIO, out)
    else:
        yield file
