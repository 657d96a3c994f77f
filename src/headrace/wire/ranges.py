"""A range of a topic's records, as doors are asked for one: from an offset or a time on, up to another, page by page.

Ends are left out: before `to`, before the first record at or after `until`. A page ends at a `Place`, a text that the
client gives back to go on. The codecs read their own spelling of it; what cannot be meant is a ValueError with words.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

PAGE_RECORDS = 1000  # unless somebody says
MAX_TIME_MS = (1 << 63) - 1
_DIGITS = len(str(MAX_TIME_MS))
_EPOCH, _MS = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)


class Bounds(NamedTuple):
    from_offset: int | None = None
    to_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None


class Place(NamedTuple):
    """Where a page ended."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}"


class Range(NamedTuple):
    topic: str
    partition: int | None = None  # None: all, one after the other
    bounds: Bounds = Bounds()
    limit: int = PAGE_RECORDS  # of a page
    page: Place | None = None
    last: int | None = None  # instead of bounds: the newest so many

    @property
    def has_offsets(self) -> bool:
        """They are a partition's own: which one has to be said where there are several."""
        return (self.bounds.from_offset, self.bounds.to_offset) != (None, None)


def place_of(text: str) -> Place:
    partition, dash, offset = text.partition("-")
    if not (dash and _is_number(partition) and _is_number(offset)):
        raise ValueError("page is what a reply before gave as next_page")
    return Place(int(partition), int(offset))


def time_ms(text: str, name: str) -> int:
    """Milliseconds since 1970, or a date and time (`2026-01-31T12:00:00Z`; without a zone: UTC). Between two
    milliseconds it is the later one, as no record at or after it can be of the earlier."""
    if _is_number(text) and int(text) <= MAX_TIME_MS:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0, ms_of(moment))
    except (ValueError, OverflowError):
        raise ValueError(f"{name} is milliseconds since 1970 or a time like 2026-01-31T12:00:00Z") from None


def ms_of(moment: datetime) -> int:
    """Since 1970, of a time with a zone; between two milliseconds the later one."""
    return -((_EPOCH - moment) // _MS)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS
