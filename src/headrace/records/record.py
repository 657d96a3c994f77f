"""One record: what a person publishes and reads. Null is told from empty, and headers repeat in order."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]

NO_TIMESTAMP = -1
NO_OFFSET = -1


class Record(NamedTuple):
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = NO_TIMESTAMP
    offset: int = NO_OFFSET  # where it was read; encoding does not look at it
