"""What could be a batch, looked for in bytes of which some are not true."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.ports import Buffer
from headrace.records.batch import HEADER_BYTES, BatchHeader, read_header
from headrace.records.header import MAGIC, MAGIC_AT, implausible
from headrace.records.kernel import scan

ReadBytes = Callable[[int, int], Buffer]  # size, position
Place = tuple[int, BatchHeader]  # a position, and what is there, read as a header

SEARCH_BYTES = 1 << 20
_MAGIC_BYTE = bytes((MAGIC,))


def places(fetch: ReadBytes, position: int, end: int) -> Iterator[Place]:
    """Every place from the position on that has the magic byte where a batch would have it."""
    while end - position >= HEADER_BYTES:
        window = bytes(fetch(min(SEARCH_BYTES, end - position), position))
        last = len(window) - HEADER_BYTES
        if last < 0:
            return
        found = window.find(_MAGIC_BYTE, MAGIC_AT, last + MAGIC_AT + 1)
        while found >= 0:
            yield position + found - MAGIC_AT, read_header(window, found - MAGIC_AT)
            found = window.find(_MAGIC_BYTE, found + 1, last + MAGIC_AT + 1)
        position += last + 1


def header_at(fetch: ReadBytes, position: int, end: int) -> BatchHeader | None:
    """None: what is there is none."""
    if end - position < HEADER_BYTES:
        return None
    raw = fetch(HEADER_BYTES, position)
    if len(raw) < HEADER_BYTES:
        return None
    header = read_header(raw)
    return header if _fits(position, header, end) else None


def is_true(fetch: ReadBytes, position: int, header: BatchHeader, end: int) -> bool:
    """All of it but its offset, which no checksum covers."""
    if not _fits(position, header, end):
        return False
    data = fetch(header.size, position)
    return scan(data, 0, len(data), -1, True)[1:] == (header.size, None)


def _fits(position: int, header: BatchHeader, end: int) -> bool:
    return implausible(header) is None and header.size <= end - position
