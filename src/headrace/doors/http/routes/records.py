"""`GET /topics/{topic}/records`: a range of a topic's records, as pages of JSON or as lines without end of page."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from headrace.doors.http.accept import Accept
from headrace.doors.http.answers import Held
from headrace.doors.http.ranges import Bounds, Place, Range, size_of, time_ms
from headrace.doors.http.refusals import NOT_FOUND
from headrace.doors.http.routes.publishing import LINES, NDJSON
from headrace.doors.http.services import Services
from headrace.doors.http.shapes import records
from headrace.doors.http.shapes.base import MAX_OFFSET, refusals
from headrace.doors.http.streaming import Streamed
from headrace.doors.http.values import encoded

MAX_PAGE = 10_000
MAX_NEWEST_BYTES = 8 << 20  # of an answer to `last`: there is no page after it
LAST = "Instead of a range: the newest so many, the oldest of them first."
TIME = "Milliseconds since 1970, or a time like 2026-01-31T12:00:00Z."

_LINES: dict[str, Any] = {"content": {NDJSON: {"schema": {"type": "string"}, "example": LINES}}}


def router(services: Services) -> APIRouter:
    routes = APIRouter(tags=["records"], responses=refusals(_400="partition is required", _404=NOT_FOUND))

    @routes.get("/topics/{topic:path}/records", response_model=records.Page, responses={200: _LINES})
    async def read(
        topic: str,
        from_: Annotated[int | None, Query(alias="from", ge=0, le=MAX_OFFSET, description="First offset.")] = None,
        to: Annotated[int | None, Query(ge=0, le=MAX_OFFSET, description="Before this offset.")] = None,
        since: Annotated[str | None, Query(description=f"First record at or after. {TIME}")] = None,
        until: Annotated[str | None, Query(description=f"Before the first record at or after. {TIME}")] = None,
        limit: Annotated[int | None, Query(ge=1, le=MAX_OFFSET, description="Records; a page has 1,000.")] = None,
        partition: Annotated[int | None, Query(ge=0, lt=1 << 31, description="Else all, one after the other.")] = None,
        last: Annotated[int | None, Query(ge=1, le=MAX_PAGE, description=LAST)] = None,
        page: Annotated[str | None, Query(description="What the page before gave as `next_page`.")] = None,
        accept: Annotated[str, Header()] = "",
    ) -> Response:
        """The records of a range. A page is cut at `limit`, at 10,000 records or at a megabyte: the same request with
        `page` goes on. With `Accept: application/x-ndjson` all of the range comes, a record in each line."""
        bounds = Bounds(from_, to, time_ms(since, "since"), time_ms(until, "until"))
        found = Range(services, services.topic(topic), partition, bounds)
        start = None if page is None else Place.read(page)
        if last is not None:
            return await newest(services, found, last)
        if Accept(accept).rank(NDJSON):
            return Streamed(lambda _: lines(services, found, start, limit or MAX_OFFSET), NDJSON)
        return await one_page(services, found, start, min(limit or 1000, MAX_PAGE))

    return routes


async def one_page(services: Services, found: Range, start: Place | None, limit: int) -> Held:
    size = services.answers.share(services.limits.page_bytes)
    shown, total, after = [], 0, None
    try:
        async with aclosing(found.pages(start, limit, size)) as pages:
            async for page, next_place in pages:
                after = next_place
                shown += page
                total += sum(len(bytes(one)) for one in page)
                if total >= size:
                    break
        answer = {"topic": found.topic.name, "records": shown, "next_page": None if after is None else str(after)}
        return Held(answer, services.answers, size)
    except BaseException:
        services.answers.give_back(size)
        raise


async def newest(services: Services, found: Range, count: int) -> Held:
    """As many of them as there is room for: the oldest go first."""
    size = services.answers.share(MAX_NEWEST_BYTES)
    try:
        records = await services.broker.reading.last(found.topic, count, found.only, size)
        kept, left = 0, size
        for _, record in reversed(records):
            left -= size_of(record)
            if left < 0 and kept:
                break
            kept += 1
        shown = [encoded([record], partition)[0] for partition, record in records[len(records) - kept :]]
        return Held({"topic": found.topic.name, "records": shown, "next_page": None}, services.answers, size)
    except BaseException:
        services.answers.give_back(size)
        raise


async def lines(services: Services, found: Range, start: Place | None, limit: int) -> AsyncGenerator[bytes, None]:
    size = services.answers.share(services.limits.page_bytes // 4)
    try:
        async with aclosing(found.pages(start, limit, size)) as pages:
            async for page, _ in pages:
                yield b"\n".join([*map(bytes, page), b""])
    finally:
        services.answers.give_back(size)
