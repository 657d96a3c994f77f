"""`POST /subscribe`, `GET /poll`, `POST /commit`: reading with a position that the broker keeps."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from headrace.doors.http.polling import Consumer, Poll, Positions
from headrace.doors.http.refusals import BAD_OFFSET, HELD, NO_CONSUMER, NOT_FOUND
from headrace.doors.http.shapes import client
from headrace.doors.http.shapes.base import MAX_OFFSET, refusals
from headrace.doors.http.waiting import Client

FROM = "Instead of the position that was committed."
REPLICA = "The node to read from, where the topic has several; any that has it is as good."


def router(positions: Positions) -> APIRouter:
    routes = APIRouter(tags=["consumers"], responses=refusals(_400=NO_CONSUMER, _404=NOT_FOUND, _409=HELD))

    @routes.post("/subscribe", response_model=client.Subscribed)
    async def subscribe(body: client.Subscribe) -> Response:
        """Where a consumer would begin; it takes its group's lease. A poll does both by itself."""
        consumer = Consumer(body.topic, body.consumer_id, body.group_id, body.partition)
        return await positions.subscribe(consumer, body.from_offset)

    @routes.get("/poll", response_model=client.Poll)
    async def poll(
        request: Request,
        topic: Annotated[str, Query(examples=["orders"])],
        consumer_id: str | None = None,
        group_id: str | None = None,
        from_offset: Annotated[int | None, Query(ge=-1 - MAX_OFFSET, le=MAX_OFFSET, description=FROM)] = None,
        max_records: Annotated[int, Query(ge=1, le=1000)] = 100,
        timeout_ms: Annotated[int, Query(ge=0, le=60_000)] = 15_000,
        prefer_replica: Annotated[int | None, Query(description=REPLICA)] = None,
        partition: Annotated[int | None, Query(ge=0, lt=1 << 31, description=client.NEEDED)] = None,
    ) -> Response:
        """Records from the position on; waits for some when there are none. It does not commit."""
        consumer = Consumer(topic, consumer_id, group_id, partition)
        return await positions.poll(Poll(consumer, from_offset, max_records, timeout_ms), Client(request.receive))

    @routes.post("/commit", response_model=client.Committed, responses=refusals(_400=BAD_OFFSET))
    async def commit(body: client.Commit) -> Response:
        """Keeps a position; it is on the disk when this is answered."""
        consumer = Consumer(body.topic, body.consumer_id, body.group_id, body.partition)
        return await positions.commit(consumer, body.offset)

    return routes
