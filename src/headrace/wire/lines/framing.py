"""Bytes to lines, sans-IO: whole lines come out as text, without their ends.

Rules of this file:
- a line ends with LF; what is left without one when the other side has said all (`end`) is a line too;
- bytes that are not UTF-8 become U+FFFD, as the protocol has it;
- a line over the limit is never kept: the lines before it still come out, then `is_overlong` says that the connection
  is to be closed, and nothing comes out any more. So the limit bounds what a connection holds.
"""

from __future__ import annotations

from headrace.ports import Buffer

MAX_LINE_BYTES = 64 << 10  # of what a client sends, the end not counted: the protocol's own limit


class Lines:
    __slots__ = ("_limit", "_parts", "_size", "is_overlong")

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []  # of a line whose end has not come
        self._size = 0
        self.is_overlong = False

    @property
    def unfinished_bytes(self) -> int:
        return self._size

    def take(self, data: Buffer) -> list[str]:
        """The lines that became whole."""
        if self.is_overlong:
            return []
        whole, end, rest = bytes(data).rpartition(b"\n")
        if end:
            whole = self._joined(whole)
            fits = len(whole) if len(whole) <= self._limit else self._fitting(whole)
            if fits < len(whole):  # what fits ends with a LF, if it is anything
                self.is_overlong = True
                whole, end = whole[: max(0, fits - 1)], whole[fits - 1 : fits] if fits else b""
        if not self.is_overlong:
            self._keep(rest)
        return whole.decode("utf-8", "replace").split("\n") if end else []

    def end(self) -> list[str]:
        """No more bytes will come."""
        last = self._joined(b"")
        return [last.decode("utf-8", "replace")] if last else []

    def _keep(self, rest: bytes) -> None:
        if self._size + len(rest) > self._limit:
            self.is_overlong = True
            self._joined(b"")
        elif rest:
            self._parts.append(rest)
            self._size += len(rest)

    def _joined(self, last: bytes) -> bytes:
        parts, self._parts, self._size = self._parts, [], 0
        return b"".join((*parts, last)) if parts else last

    def _fitting(self, whole: bytes) -> int:
        """How many bytes there are before a line over the limit."""
        at = 0
        while len(whole) - at > self._limit:
            end = whole.rfind(b"\n", at, at + self._limit + 1)
            if end < 0:
                return at
            at = end + 1
        return len(whole)
