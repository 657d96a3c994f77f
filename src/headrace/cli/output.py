"""What a command found, in the form that was asked: a table for people, JSON, JSON lines, YAML or CSV for programs.

Rows are msgspec structs (or plain dictionaries); their fields are the JSON, whole and typed. Columns are what the
table, the wide table and CSV show of them. JSON of a list is a list, also when it is empty; of one thing an object.

Tables are drawn by rich on a terminal; elsewhere they are plain columns two spaces apart, the same on every machine,
and rich is not imported at all. Text from records and names may hold control characters: a table shows them escaped,
so that no record can move somebody's cursor.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from headrace.cli.options import Options, current

Row = msgspec.Struct | Mapping[str, Any]


class Column(msgspec.Struct, frozen=True):
    """`show` turns the field into what people read; CSV and JSON get the field as it is."""

    name: str
    title: str = ""
    wide: bool = False  # only where there is room
    align: Literal["left", "right"] = "left"
    show: Callable[[Any], str] | None = None

    @property
    def heading(self) -> str:
        return (self.title or self.name.replace("_", " ")).upper()


def show(rows: Sequence[Row], columns: Sequence[Column], options: Options | None = None, *, empty: str = "") -> None:
    """A list. `empty` is said, on standard error, where a table would have no rows: what to do next."""
    options = options or current()
    form = options.output_or()
    if form in ("table", "wide"):
        shown = [column for column in columns if form == "wide" or not column.wide]
        if rows:
            _table([[_cell(column, row) for column in shown] for row in rows], shown, options)
        elif empty and not options.quiet:
            print(empty, file=sys.stderr)
    elif form == "csv":
        write = csv.writer(sys.stdout, lineterminator="\n").writerow
        write([column.name for column in columns])
        for row in rows:
            write([_plain(_field(row, column.name)) for column in columns])
    elif form == "jsonl":
        for row in rows:
            print(json_text(row))
    else:
        _document(rows, form)


def show_one(row: Row, columns: Sequence[Column], options: Options | None = None) -> None:
    """One thing: in a table each field stands on a line of its own."""
    options = options or current()
    form = options.output_or()
    if form in ("table", "wide"):
        shown = [column for column in columns if form == "wide" or not column.wide]
        width = max((len(column.heading) for column in shown), default=0)
        for column in shown:
            heading = column.heading.ljust(width)
            print(
                f"\x1b[1m{heading}\x1b[0m  {_cell(column, row)}"
                if options.color
                else f"{heading}  {_cell(column, row)}"
            )
    elif form == "csv":
        show([row], columns, options)
    elif form == "jsonl":
        print(json_text(row))
    else:
        _document(row, form)


def done(words: str, result: Row, options: Options | None = None) -> None:
    """The end of a command that changed something: words for people, the result for programs."""
    options = options or current()
    form = options.output_or()
    if form in ("table", "wide"):
        if not options.quiet:
            print(words)
    elif form == "csv":
        plain = msgspec.to_builtins(result)
        show([plain], [Column(name) for name in plain], options)
    elif form == "jsonl":
        print(json_text(result))
    else:
        _document(result, form)


def json_text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def printable(text: str) -> str:
    """As people may see it: control characters escaped, everything else as it is."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def plain_lines(cells: Sequence[Sequence[str]], columns: Sequence[Column]) -> list[str]:
    table = [[column.heading for column in columns], *cells]
    widths = [max(_width(row[at]) for row in table) for at in range(len(columns))]
    return [
        "  ".join(
            _padded(text, width, column.align) for text, width, column in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in table
    ]


def _table(cells: list[list[str]], columns: Sequence[Column], options: Options) -> None:
    if not options.color:
        for line in plain_lines(cells, columns):
            print(line)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column.heading, justify=column.align, overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


def _document(value: object, form: str) -> None:
    if form == "json":
        print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
        return
    import yaml

    print(yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=True), end="")


def _field(row: Row, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name)


def _cell(column: Column, row: Row) -> str:
    value = _field(row, column.name)
    if column.show is not None and value is not None:
        return printable(column.show(value))
    return printable(_plain(value))


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(item, str | int) for item in value):
        return ",".join(str(item) for item in value)
    return json_text(value)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _padded(text: str, width: int, align: str) -> str:
    room = " " * (width - _width(text))
    return room + text if align == "right" else text + room
