"""Bytes to requests, sans-IO: one JSON object for a connection, or, when its first byte is LF, one for each line.

Rules of this file:
- there is no length in front: a document is whole when the bracket that began it is closed. Each byte is looked at
  once, however small the pieces are, and nothing is parsed before it is whole (brackets.py);
- what stands behind a document is not looked at: its connection has said all that it may;
- in lines, an empty one is passed over, and what is left without an end when the other side has said all is one too;
- size is judged while bytes come, so that it bounds what a connection holds. After a `Broken` event nothing comes out
  any more: the driver says why and closes.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.ports import Buffer
from headrace.wire.json.brackets import Brackets

_SPACE = b" \t\r\n"


class Document(NamedTuple):
    data: bytes


class Broken(NamedTuple):
    why: str


Event = Document | Broken


class Requests:
    """What a client sends."""

    __slots__ = ("_brackets", "_limit", "_parts", "_size", "is_done", "is_lines")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.is_lines: bool | None = None  # not known before the first byte
        self.is_done = False
        self._brackets: Brackets | None = None  # of a document that has begun
        self._parts: list[bytes] = []  # of what is not whole yet
        self._size = 0

    @property
    def unfinished_bytes(self) -> int:
        return self._size

    def take(self, data: Buffer) -> list[Event]:
        """What became whole."""
        block = bytes(data)
        if not block or self.is_done:
            return []
        if self.is_lines is None:
            self.is_lines = block[:1] == b"\n"
        return self._take_lines(block) if self.is_lines else self._take_document(block)

    def end(self) -> list[Event]:
        """No more bytes will come."""
        if self.is_done or not self._size:
            return []
        self.is_done = True
        last = self._joined()
        if not self.is_lines:
            return [Broken("the request ends before its JSON is whole")]
        return [Document(last)] if last.strip() else []

    def _take_lines(self, block: bytes) -> list[Event]:
        first, *rest = block.split(b"\n")
        events: list[Event] = []
        for end in rest:
            if self._is_over(first):
                return events + self._too_large()
            line = self._joined(first)
            if line.strip():
                events.append(Document(line))
            first = end
        if self._is_over(first):
            return events + self._too_large()
        self._keep(first)
        return events

    def _take_document(self, block: bytes) -> list[Event]:
        if self._brackets is None:
            block = block.lstrip(_SPACE)
            if not block:
                return []
            if block[:1] != b"{":
                self.is_done = True
                return [Broken("a request is a JSON object")]
            self._brackets = Brackets()
        end = self._brackets.take(block)
        if end is not None:
            block = block[:end]
        if self._is_over(block):
            return self._too_large()
        if end is None:
            self._keep(block)
            return []
        self.is_done = True
        return [Document(self._joined(block))]

    # Bytes

    def _is_over(self, more: bytes) -> bool:
        return self._size + len(more) > self._limit

    def _too_large(self) -> list[Event]:
        self.is_done = True
        self._joined()
        return [Broken(f"the request is over the limit of {self._limit} bytes")]

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._parts.append(piece)
            self._size += len(piece)

    def _joined(self, last: bytes = b"") -> bytes:
        parts, self._parts, self._size = self._parts, [], 0
        return b"".join((*parts, last)) if parts else last
