"""What the formats have in common: a writer takes records as the client read them, a reader gives records that are to
be sent, some at a time.

Nothing is lost on the way: null is told from empty, bytes that are not UTF-8 are base64 where a format only has text,
and say so; headers keep their order and may repeat.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Protocol

from headrace.cli.record_values import Sending
from headrace.client.values import Record
from headrace.errors import HeadraceError

ROWS_AT_ONCE = 1000
ROW_BYTES = 64  # about what a record takes besides its content

Rows = Iterator[list[Sending]]


class BadRow(HeadraceError):
    """A row that holds no record; the text says where it stands and why."""


class Writer(Protocol):
    def write(self, records: Sequence[Record]) -> None: ...

    def finish(self) -> None:
        """Writes what the format ends with. What it writes to is somebody else's to close."""


def size_of(record: Record) -> int:
    """About what it takes in memory."""
    own = ROW_BYTES + len(record.key or b"") + len(record.value or b"")
    return own + sum(len(name) + len(value or b"") for name, value in record.headers)


def from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRow(f"not base64: {error}") from None
