"""JSON lines: one record a line, as `headrace consume -o jsonl` prints them and `headrace produce --format jsonl` takes
them (record_values.py). An empty line is passed over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

import msgspec

from headrace.cli.exchange.rows import ROWS_AT_ONCE, BadRow, Rows
from headrace.cli.exits import Refusal
from headrace.cli.record_values import Sending, row_of, sending_of
from headrace.client.values import Record

MAX_LINE_BYTES = 256 << 20  # more than the largest record is as base64; a file without line ends is refused, not loaded


class JsonlWriter:
    def __init__(self, out: BinaryIO, topic: str) -> None:
        self._out = out
        self._encoder = msgspec.json.Encoder()

    def write(self, records: Sequence[Record]) -> None:
        self._out.write(self._encoder.encode_lines([row_of(record) for record in records]))

    def finish(self) -> None:
        self._out.flush()


def read_jsonl(file: BinaryIO, name: str) -> Rows:
    rows: list[Sending] = []
    number = 0
    while line := file.readline(MAX_LINE_BYTES):
        number += 1
        if not line.strip():
            continue
        if len(line) == MAX_LINE_BYTES:
            raise BadRow(f"{name}: line {number} has more than {MAX_LINE_BYTES} bytes")
        try:
            rows.append(sending_of(line, number))
        except Refusal as refusal:
            raise BadRow(f"{name}: {refusal}") from None
        if len(rows) == ROWS_AT_ONCE:
            yield rows
            rows = []
    if rows:
        yield rows
