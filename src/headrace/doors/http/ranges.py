"""Ranges of a topic's records: from and to by offset or by time, a partition after the other, page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from headrace.broker.partition import Partition
from headrace.broker.reading import Page
from headrace.broker.topic import Topic
from headrace.doors.http.refusals import BAD, MISSING, Refused
from headrace.doors.http.services import Services
from headrace.doors.http.values import encoded
from headrace.errors import OffsetOutOfRange
from headrace.records.record import Record

FEW_BYTES, RECORD_BYTES = 4 << 10, 1 << 10
RECORD_COST = 60  # bytes that a record counts for besides key and value
MAX_TIME_MS = (1 << 63) - 1


def likely_bytes(records: int) -> int:
    """Of batches with so many records. Who wants one record is not to wait until a megabyte is decoded; who finds that
    it was too little reads on."""
    return FEW_BYTES + RECORD_BYTES * records


def size_of(record: Record) -> int:
    return RECORD_COST + len(record.value or b"") + len(record.key or b"")


def fitting(page: Page, size: int) -> Page:
    """As much of a page as has so many bytes, one record at least: a batch may unpack to much more than it was."""
    for place, record in enumerate(page.records):
        size -= size_of(record)
        if size < 0 and place:
            return Page(page.records[:place], record.offset, page.end_offset)
    return page


class Bounds(NamedTuple):
    """What is asked for; the ends are left out: before `to`, before `until_ms`."""

    from_offset: int | None = None
    to_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None


class Place(NamedTuple):
    """Where a page ended, as text for the client to give back."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}"

    @classmethod
    def read(cls, text: str) -> Place:
        partition, dash, offset = text.partition("-")
        if not (dash and _is_number(partition) and _is_number(offset)):
            raise Refused(BAD, "page is what an answer before gave as next_page")
        return cls(int(partition), int(offset))


class Range:
    def __init__(self, services: Services, topic: Topic, partition: int | None, bounds: Bounds) -> None:
        self._reading, self.topic, self._bounds = services.broker.reading, topic, bounds
        self.only = partition
        count = len(topic.partitions)
        if partition is None and count > 1 and (bounds.from_offset, bounds.to_offset) != (None, None):
            raise Refused(BAD, f"partition is required with offsets: topic {topic.name!r} has {count} partitions")
        if partition is not None and partition >= count:
            raise Refused(MISSING, f"no partition {partition}: topic {topic.name!r} has {count}")
        self._partitions: Sequence[Partition] = topic.partitions if partition is None else [topic.partitions[partition]]

    async def pages(
        self, start: Place | None, max_records: int, max_bytes: int
    ) -> AsyncGenerator[tuple[list[msgspec.Raw], Place | None], None]:
        """Records as JSON, at most so many in all, and where the range goes on after them; None at its end."""
        for number, partition in enumerate(self._partitions):
            if start is not None and partition.index < start.partition:
                continue
            at, end = await self._ends(partition)
            if start is not None and partition.index == start.partition:
                at = max(at, start.offset)
            later = number + 1 < len(self._partitions)
            while at < end and max_records:
                page = await self._page(partition, at, end, max_records, max_bytes)
                if page.next_offset <= at:
                    break
                at = page.next_offset
                max_records -= len(page.records)
                if page.records:
                    after = Place(partition.index + 1, 0) if later else None
                    yield encoded(page.records, partition.index), Place(partition.index, at) if at < end else after

    async def _page(self, partition: Partition, at: int, end: int, max_records: int, max_bytes: int) -> Page:
        try:
            wish = min(max_bytes, likely_bytes(max_records))
            page = await self._reading.page(partition, at, max_records=max_records, max_bytes=wish, to_offset=end)
            return fitting(page, max_bytes)
        except OffsetOutOfRange as error:  # retention went past it
            return Page([], max(at + 1, error.start), end)

    async def _ends(self, partition: Partition) -> tuple[int, int]:
        bounds = self._bounds
        await partition.opened()
        at, end = partition.start_offset, partition.last_stable_offset
        if bounds.from_offset is not None:
            at = max(at, bounds.from_offset)
        if bounds.since_ms is not None:
            at = max(at, await self._reading.offset_at(partition, bounds.since_ms))
        if bounds.to_offset is not None:
            end = min(end, bounds.to_offset)
        if bounds.until_ms is not None:
            end = min(end, await self._reading.offset_at(partition, bounds.until_ms))
        return at, end


def time_ms(text: str | None, name: str) -> int | None:
    """Milliseconds since 1970, or a date and time (`2026-01-31T12:00:00Z`; without a zone: UTC)."""
    if text is None:
        return None
    if _is_number(text) and int(text) <= MAX_TIME_MS:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0, int(moment.timestamp() * 1000))
    except (ValueError, OverflowError) as error:
        raise Refused(BAD, f"{name} is milliseconds since 1970 or a time like 2026-01-31T12:00:00Z") from error


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19
