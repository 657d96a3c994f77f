"""`GET /topics/{topic}/stream`: records as they come, as server-sent events.

An event's `id` says where it was: a browser that lost the connection sends it back (`Last-Event-ID`) and misses
nothing. What the record itself is called stands in its data.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from headrace.doors.http.following import Following
from headrace.doors.http.ranges import time_ms
from headrace.doors.http.refusals import NOT_FOUND
from headrace.doors.http.services import Services
from headrace.doors.http.shapes.base import MAX_OFFSET, Documented, refusals
from headrace.doors.http.streaming import Streamed
from headrace.doors.http.waiting import Client

SSE = "text/event-stream"
BEGIN = b"retry: 1000\n\n"
SIGN = b":\n\n"  # a comment shows that the connection lives
EXAMPLE = (
    "id: 41\n"
    'data: {"offset":41,"ts_ms":1760000000000,"key":null,"value":"hello","headers":{},"id":"msg_0-41_09a7c08a"}\n\n'
)
_EVENTS: Documented = {200: {"content": {SSE: {"schema": {"type": "string"}, "example": EXAMPLE}}}}

From = Annotated[int | None, Query(alias="from", ge=0, le=MAX_OFFSET, description="First offset.")]
Since = Annotated[str | None, Query(description="First record at or after that time.")]
Partition = Annotated[int | None, Query(ge=0, lt=1 << 31, description="Else all.")]


def router(services: Services) -> APIRouter:
    routes = APIRouter(tags=["records"], responses=refusals(_400="Last-Event-ID is the id of an event", _404=NOT_FOUND))

    @routes.get("/topics/{topic:path}/stream", responses=_EVENTS, response_class=Response)
    async def stream(
        topic: str,
        from_: From = None,
        since: Since = None,
        partition: Partition = None,
        last_event_id: Annotated[str | None, Header(description="The id of the last event that came.")] = None,
    ) -> Response:
        """Records as they come, without end; from now on, unless the request says from where."""
        following = Following(services, services.topic(topic), partition, Events())
        since_ms = time_ms(since, "since")
        if last_event_id:
            following.go_on_after(last_event_id, "Last-Event-ID")
        elif from_ is not None or since_ms is not None:
            await following.begin_at(from_, since_ms)

        async def pieces(client: Client) -> AsyncGenerator[bytes, None]:
            await following.opened()
            yield BEGIN
            async with aclosing(following.pieces(client)) as events:
                async for event in events:
                    yield event or SIGN

        return Streamed(pieces, SSE, {"cache-control": "no-cache", "x-accel-buffering": "no"})

    return routes


class Events:
    """Records as server-sent events."""

    names_partition = False
    place_name = "id of an event"

    def record(self, place: bytes, shown: bytes) -> bytes:
        return b"id: %s\ndata: %s\n\n" % (place, shown)

    def lost(self, partition: int, first: int, end: int) -> bytes:
        return b'event: lost\ndata: {"partition":%d,"from":%d,"to":%d}\n\n' % (partition, first, end)
