"""`GET /topics/{topic}/records`: a range of a topic's records, as pages of JSON or as lines without end of page."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query, Response

from headrace.broker.ranges import RangeRead, Rows, newest
from headrace.broker.topic import Topic
from headrace.doors.http.accept import Accept
from headrace.doors.http.answers import Held
from headrace.doors.http.ranges import check, place_of, time_ms
from headrace.doors.http.refusals import NOT_FOUND
from headrace.doors.http.routes.publishing import LINES, NDJSON
from headrace.doors.http.services import Services
from headrace.doors.http.shapes import records
from headrace.doors.http.shapes.base import MAX_OFFSET, refusals
from headrace.doors.http.streaming import Streamed
from headrace.doors.http.values import identified
from headrace.wire.ranges import Bounds, Range

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
        found = services.topic(topic)
        wish = Range(found.name, partition, bounds, page=place_of(page), last=last)
        check(found, wish)
        if last is not None:
            return await last_page(services, found, wish)
        if Accept(accept).rank(NDJSON):
            return Streamed(lambda _: lines(services, found, wish, limit or MAX_OFFSET), NDJSON)
        return await one_page(services, found, wish, min(limit or 1000, MAX_PAGE))

    return routes


async def one_page(services: Services, topic: Topic, wish: Range, limit: int) -> Held:
    size = services.answers.share(services.limits.page_bytes)
    shown, total, read = list[msgspec.Raw](), 0, RangeRead(services.broker, topic, wish)
    try:
        while total < size and (rows := await read.more(limit - len(shown), size)):
            page = _encoded(topic, rows)
            shown += page
            total += sum(len(bytes(one)) for one in page)
            if len(shown) >= limit:
                break
        after = None if read.place is None else str(read.place)
        return Held({"topic": topic.name, "records": shown, "next_page": after}, services.answers, size)
    except BaseException:
        services.answers.give_back(size)
        raise


async def last_page(services: Services, topic: Topic, wish: Range) -> Held:
    """As many of the newest as there is room for: the oldest go first."""
    size = services.answers.share(MAX_NEWEST_BYTES)
    try:
        shown = _encoded(topic, await newest(services.broker, topic, wish, size))
        return Held({"topic": topic.name, "records": shown, "next_page": None}, services.answers, size)
    except BaseException:
        services.answers.give_back(size)
        raise


async def lines(services: Services, topic: Topic, wish: Range, limit: int) -> AsyncGenerator[bytes, None]:
    size = services.answers.share(services.limits.page_bytes // 4)
    try:
        read = RangeRead(services.broker, topic, wish)
        while limit and (rows := await read.more(limit, size)):
            limit -= len(rows)
            yield b"\n".join([*map(bytes, _encoded(topic, rows)), b""])
    finally:
        services.answers.give_back(size)


def _encoded(topic: Topic, rows: Rows) -> list[msgspec.Raw]:
    return [msgspec.Raw(identified(topic.name, partition, record)) for partition, record in rows]
