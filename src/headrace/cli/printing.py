"""Records as they come, in the form that was asked. Nothing waits for the last one: a stream may have none.

Bytes go out as they are, so that `headrace consume` can be piped; only on a terminal are control characters shown
escaped, because a record must not move somebody's cursor.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from headrace.cli.options import Options
from headrace.cli.output import json_text, printable
from headrace.cli.parsing import show_time
from headrace.cli.record_format import compiled
from headrace.cli.record_values import RecordRow, row_of

if TYPE_CHECKING:
    from headrace.client.values import Record

VALUES = r"%s\n"
TOPIC_CELL = 16  # characters of a topic's name before the columns behind it give way
CELL = 40  # characters of a key in a table; longer ones are cut there, and -o wide has them whole


class Printer:
    """`put = Printer(options, template)`, `put(record)` for each, `put.close()`. The beginning and the end of a form
    (JSON's brackets, headings) are its own business."""

    def __init__(self, options: Options, template: str | None) -> None:
        self._out: BinaryIO = sys.stdout.buffer
        self._first = True
        self._live = sys.stdout.isatty()
        self._render = compiled(template if template is not None else VALUES)
        self._wide = options.output == "wide"
        self._form = options.output if template is None else None
        forms: dict[str | None, Callable[[Record], None]] = {
            None: self._text,
            "json": self._json,
            "jsonl": self._jsonl,
            "yaml": self._yaml,
            "csv": self._csv,
            "table": self._line,
            "wide": self._line,
        }
        self._put = forms[self._form]

    def __call__(self, record: Record) -> None:
        self._put(record)
        self._first = False

    def flush(self) -> None:
        self._out.flush()

    def close(self) -> None:
        if self._form == "json":
            self._out.write(b"[]\n" if self._first else b"\n]\n")
        elif self._form == "yaml" and self._first:
            self._out.write(b"[]\n")
        self.flush()

    def _text(self, record: Record) -> None:
        data = self._render(record)
        if self._live:
            text = data.decode("utf-8", "backslashreplace")
            data = "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n")).encode()
        self._out.write(data)

    def _jsonl(self, record: Record) -> None:
        self._out.write(msgspec.json.encode(row_of(record)) + b"\n")

    def _json(self, record: Record) -> None:
        self._out.write((b"[\n" if self._first else b",\n") + b"  " + msgspec.json.encode(row_of(record)))

    def _yaml(self, record: Record) -> None:
        import yaml

        text = yaml.safe_dump([msgspec.to_builtins(row_of(record))], sort_keys=False, allow_unicode=True)
        self._out.write(text.encode())

    def _csv(self, record: Record) -> None:
        self.flush()
        out = csv.writer(sys.stdout, lineterminator="\n")
        if self._first:
            out.writerow(RecordRow.__struct_fields__)
        row = row_of(record)
        plain = (getattr(row, name) for name in RecordRow.__struct_fields__)
        cells = ["" if v is None else v if isinstance(v, str | int) else json_text(v) for v in plain]
        out.writerow([printable(cell) if self._live and isinstance(cell, str) else cell for cell in cells])
        sys.stdout.flush()

    def _line(self, record: Record) -> None:
        """Columns of fixed width: how wide the next record is, nobody knows."""
        wide = self._wide
        if self._first:
            place = f"{'TOPIC':<{TOPIC_CELL}}  " if wide else ""
            self._out.write(f"{place}{'PARTITION':>9}  {'OFFSET':>10}  {'TIMESTAMP':<24}  {'KEY':<8}  VALUE\n".encode())
        key = _shown(record.key, None if wide else CELL)
        value = _shown(record.value, None)
        place = f"{printable(record.topic):<{TOPIC_CELL}}  " if wide else ""
        headers = "".join(f"  {printable(name)}={_shown(data, None)}" for name, data in record.headers) if wide else ""
        line = (
            f"{place}{record.partition:>9}  {record.offset:>10}  {show_time(record.timestamp_ms):<24}"
            f"  {key:<8}  {value}{headers}\n"
        )
        self._out.write(line.encode())


def _shown(data: bytes | None, limit: int | None) -> str:
    if data is None:
        return "(null)"
    text = printable(data.decode("utf-8", "backslashreplace"))
    return text if limit is None or len(text) <= limit else text[: limit - 1] + "…"
