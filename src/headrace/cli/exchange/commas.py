"""CSV (RFC 4180): a heading, then one record a row.

CSV has no null and no bytes, so two columns say what stands in the one before them: `key_is` and `value_is` are `text`,
`base64` or `null`. A file that leaves them out holds text, and so does one that has only a column `value`. `headers` is
JSON, as in JSON lines.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import BinaryIO

import msgspec

from headrace.cli.exchange.rows import ROWS_AT_ONCE, BadRow, Rows, from_base64
from headrace.cli.record_values import Base64, Header, Headers, Sending, Text, text_of
from headrace.client.values import Record

COLUMNS = ("partition", "offset", "timestamp_ms", "key", "key_is", "value", "value_is", "headers")
TEXT, BASE64, NULL = "text", "base64", "null"
MAX_FIELD_CHARS = 256 << 20  # more than the largest record is as base64

_headers = msgspec.json.Decoder(list[Header])


class CsvWriter:
    def __init__(self, out: BinaryIO, topic: str) -> None:
        self._out = out
        self._text = io.StringIO(newline="")
        # With \r\n as the end of a line the csv module quotes either of them inside of a field.
        self._rows = csv.writer(self._text, lineterminator="\r\n")
        self._rows.writerow(COLUMNS)
        self._empty()

    def write(self, records: Sequence[Record]) -> None:
        self._rows.writerows(map(_cells, records))
        self._empty()

    def finish(self) -> None:
        self._out.flush()

    def _empty(self) -> None:
        self._out.write(self._text.getvalue().encode())
        self._text.seek(0)
        self._text.truncate()


def _cells(record: Record) -> list[str]:
    key, key_is = _field(record.key)
    value, value_is = _field(record.value)
    headers = [Header(name, text_of(content)) for name, content in record.headers]
    written = msgspec.json.encode(headers).decode() if headers else ""
    place = [str(record.partition), str(record.offset), str(record.timestamp_ms)]
    return [*place, key, key_is, value, value_is, written]


def _field(data: bytes | None) -> tuple[str, str]:
    text = text_of(data)
    if text is None:
        return "", NULL
    return (text.base64, BASE64) if isinstance(text, Base64) else (text, TEXT)


def read_csv(file: BinaryIO, name: str) -> Rows:
    before = csv.field_size_limit(MAX_FIELD_CHARS)
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")  # a spreadsheet puts a mark in front
    try:
        yield from _read(csv.DictReader(text, strict=True), name)
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadRow(f"{name} is not CSV in UTF-8: {error}") from None
    finally:
        csv.field_size_limit(before)
        text.detach()  # the file is closed by who opened it


def _read(table: csv.DictReader[str], name: str) -> Rows:
    if "value" not in (table.fieldnames or ()):
        columns = ", ".join(table.fieldnames or ()) or "none"
        raise BadRow(f"{name} has no column `value` in its first line (columns: {columns})")
    rows: list[Sending] = []
    for cells in table:
        try:
            rows.append(_row(cells))
        except (ValueError, BadRow, msgspec.MsgspecError) as error:
            raise BadRow(f"{name}: line {table.line_num}: {error}") from None
        if len(rows) == ROWS_AT_ONCE:
            yield rows
            rows = []
    if rows:
        yield rows


def _row(cells: dict[str, str]) -> Sending:
    if None in cells or None in cells.values():
        raise BadRow("more or fewer fields than the first line has columns")
    key = cells.get("key", "")
    return Sending(
        value=_content(cells["value"], cells.get("value_is") or TEXT),
        key=_content(key, cells.get("key_is") or (TEXT if key else NULL)),
        headers=_pairs(cells.get("headers", "")),
        partition=_number(cells.get("partition")),
        timestamp_ms=_number(cells.get("timestamp_ms")),
    )


def _number(text: str | None) -> int | None:
    """None where nothing stands, or a number that means nothing (-1)."""
    number = int(text) if text else -1
    return number if number >= 0 else None


def _content(text: str, kind: str) -> bytes | None:
    if kind == TEXT:
        return text.encode()
    if kind == BASE64:
        return from_base64(text)
    if kind == NULL:
        return None
    raise BadRow(f"{kind!r} is not {TEXT}, {BASE64} or {NULL}")


def _pairs(text: str) -> Headers:
    return tuple((header.name, _bytes(header.value)) for header in _headers.decode(text)) if text else ()


def _bytes(text: Text) -> bytes | None:
    if isinstance(text, Base64):
        return from_base64(text.base64)
    return None if text is None else text.encode()
