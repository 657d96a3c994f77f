"""`GET /topics/{topic}/ws`: records as they come and records to publish, over one WebSocket."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from headrace.doors.http.following import Following
from headrace.doors.http.publishing import ACKS
from headrace.doors.http.ranges import time_ms
from headrace.doors.http.refusals import NOT_FOUND
from headrace.doors.http.routes.stream import From, Partition, Since
from headrace.doors.http.services import Services
from headrace.doors.http.shapes.base import Documented, refusals
from headrace.doors.http.websocket.handshake import ASK, accepted
from headrace.doors.http.websocket.texts import Records
from headrace.doors.http.websocket.upgraded import Upgraded
from headrace.doors.http.websocket.websocket import WebSocket, Wish

SWITCHED: Documented = {101: {"description": "From here on text frames, a JSON document each."}}
REFUSALS = refusals(_400="after is the place of a record", _404=NOT_FOUND, _426=ASK)
LEVELS = "When a record that was sent is acknowledged, as for a publish."

After = Annotated[str | None, Query(description="The place of the last record that came.")]
Acks = Annotated[str | None, Query(description=LEVELS, pattern=f"^({ACKS.pattern})$")]


def router(services: Services) -> APIRouter:
    routes = APIRouter(tags=["records"], responses=REFUSALS)

    @routes.get("/topics/{topic:path}/ws", responses=SWITCHED, response_class=Response)
    async def websocket(
        request: Request,
        topic: str,
        from_: From = None,
        since: Since = None,
        after: After = None,
        partition: Partition = None,
        acks: Acks = None,
    ) -> Response:
        """A WebSocket. It tells records as they come, from now on unless the request says from where, and publishes
        what it is sent."""
        found = services.topic(topic)
        head = accepted(request.scope["headers"], request.scope["http_version"])
        following = Following(services, found, partition, Records())
        since_ms = time_ms(since, "since")
        if after:
            following.go_on_after(after, "after")
        elif from_ is not None or since_ms is not None:
            await following.begin_at(from_, since_ms)
        await following.opened()
        loop = asyncio.get_running_loop()
        return Upgraded(head, WebSocket(services, Wish(found, partition, acks), loop), following)

    return routes
