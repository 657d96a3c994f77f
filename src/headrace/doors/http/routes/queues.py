"""`/queues`: groups whose records belong to members, for whoever administers them. In these paths topic and group are
one part each: a slash in a name is sent as %2F."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

import msgspec
from fastapi import APIRouter, Body, Query, Response

from headrace.broker.queues.coordinator import Dead
from headrace.broker.queues.records import QueueKey
from headrace.doors.http.answers import Json
from headrace.doors.http.services import Services
from headrace.doors.http.shapes import queues as shapes
from headrace.doors.http.shapes.base import refusals
from headrace.doors.http.values import shown

MAX_DEAD = 1000
Redeliver = Annotated[shapes.Redeliver | None, Body(examples=[{"places": [[0, 41]]}, {}])]
_ONE = "/{door}/{topic}/{group}"


def router(services: Services) -> APIRouter:
    routes = APIRouter(prefix="/queues", tags=["queues"])
    queues = services.broker.queues
    missing = refusals(_404="no queue lines/jobs/workers")

    @routes.get("", response_model=shapes.Queues)
    async def every() -> Response:
        """Every queue."""
        return Json({"queues": queues.all()})

    @routes.get(_ONE, response_model=shapes.Queue, responses=missing)
    async def describe(door: str, topic: str, group: str) -> Response:
        """One queue, with its partitions."""
        return Json(await queues.describe(_key(door, topic, group)))

    @routes.delete(
        _ONE, response_model=shapes.QueueDeleted, responses=missing | refusals(_409="the queue has 2 members")
    )
    async def delete(door: str, topic: str, group: str) -> Response:
        """Forgets a queue that nobody is in."""
        await queues.delete(_key(door, topic, group))
        return Json({"status": "ok"})

    @routes.get(_ONE + "/dead", response_model=shapes.DeadRecords, responses=missing)
    async def dead(
        door: str,
        topic: str,
        group: str,
        limit: Annotated[int, Query(ge=1, le=MAX_DEAD)] = 100,
        everything: Annotated[bool, Query(alias="all", description="Also what was delivered again since.")] = False,
    ) -> Response:
        """What was given up, the oldest first, `limit` of it at most."""
        found = await queues.dead(_key(door, topic, group), limit, everything)
        return Json({"dead": [_shown(one) for one in found]})

    @routes.post(_ONE + "/redeliver", response_model=shapes.Redelivered, responses=missing)
    async def redeliver(door: str, topic: str, group: str, body: Redeliver = None) -> Response:
        """Delivers again what was given up."""
        places = None if body is None else body.places
        found = await queues.redeliver(_key(door, topic, group), places)
        return Json(found._asdict())

    return routes


def _key(door: str, topic: str, group: str) -> QueueKey:
    return QueueKey(unquote(door), unquote(topic), unquote(group))


def _shown(dead: Dead) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.structs.asdict(shown(dead.record))
    letter = dead.letter._asdict()
    del letter["queue"], record["partition"], record["id"]
    return {"partition": dead.partition, "timestamp_ms": record.pop("ts_ms"), **record, "letter": letter}
