"""What programs give a producer as keys, values and headers, made into bytes."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.client.lane import HEADER_PAIR_BYTES
from headrace.records.record import Headers

Content = bytes | bytearray | memoryview | str | None
GivenHeaders = Iterable[tuple[str, bytes | str | None]]


def raw_bytes(content: object) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise TypeError(f"keys and values are bytes, text or None, not {type(content).__name__}")


def raw_headers(given: GivenHeaders) -> tuple[Headers, int]:
    size, found = 0, []
    for name, content in given.items() if isinstance(given, dict) else given:
        if not isinstance(name, str):
            raise TypeError(f"a header's name is text, not {type(name).__name__}")
        raw = None if content is None else raw_bytes(content)
        size += HEADER_PAIR_BYTES + len(name.encode()) + (len(raw) if raw else 0)
        found.append((name, raw))
    return tuple(found), size
