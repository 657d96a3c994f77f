"""Two true batches side by side whose offsets overlap, so that one of them lies about its own.

A checksum does not cover the offset. Without gaps it is what the one before leads to, and nothing else. Where
compaction has left gaps it may be any later one: a batch whose offset is too high is told only by the one behind it,
and if it is that one whose offset is too low, it looks just the same.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.ports import Buffer
from headrace.records.batch import HEADER_BYTES, BatchHeader, read_header
from headrace.records.header import implausible
from headrace.records.kernel import scan

ReadBytes = Callable[[int, int], Buffer]  # size, position


def last_in_doubt(
    fetch: ReadBytes,
    end: int,
    known_offset: int,
    before: int,
    first: tuple[int, int, int],
    behind: int,
) -> int | None:
    """`first`: position, base and next offset of a batch that comes after the offset `before`; the other one is at
    `behind`, if there is one. All end at `known_offset`. None: the first is not to be doubted. Its own position: it is
    the one that lies. `behind`: nothing tells which of them does, and neither is to be believed."""
    at, base_offset, next_offset = first
    if next_offset > known_offset:
        return at
    second = _header(fetch, behind, end)
    if second is None or second.base_offset >= next_offset:
        return None
    if before + next_offset - base_offset > second.base_offset:
        return None  # there is no room for it but where it says
    if not _is_true(fetch, behind, second):
        return None
    third = _header(fetch, behind + second.size, end)
    is_known = third is not None and _is_true(fetch, behind + second.size, third)
    limit = third.base_offset if third is not None and is_known else known_offset
    has_room = next_offset + second.next_offset - second.base_offset <= limit
    return behind if has_room else at


def _header(fetch: ReadBytes, position: int, end: int) -> BatchHeader | None:
    if end - position < HEADER_BYTES:
        return None
    raw = fetch(HEADER_BYTES, position)
    if len(raw) < HEADER_BYTES:
        return None
    header = read_header(raw)
    return None if implausible(header) is not None or header.size > end - position else header


def _is_true(fetch: ReadBytes, position: int, header: BatchHeader) -> bool:
    data = fetch(header.size, position)
    return scan(data, 0, len(data), -1, True)[1:] == (header.size, None)
