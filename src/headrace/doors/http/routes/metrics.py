"""`/metrics`: a summary as JSON, or metrics as text by the Accept header; `/metrics/prometheus`: always text."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from headrace.doors.http import placement
from headrace.doors.http.accept import OPENMETRICS, PLAIN, Accept
from headrace.doors.http.answers import Json
from headrace.doors.http.services import Services
from headrace.doors.http.shapes.metrics import Summary
from headrace.doors.http.watch import Watch

TEXT_TYPE = f"{PLAIN}; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"
_TEXT: dict[str, Any] = {"content": {PLAIN: {}, OPENMETRICS: {}}}


def router(services: Services) -> APIRouter:
    routes = APIRouter(tags=["metrics"])
    watch = services.watch

    @routes.get("/metrics", responses={200: {"model": Summary, **_TEXT}}, response_model=None)
    async def metrics(request: Request) -> Response:
        """Text when the Accept header ranks `text/plain` or OpenMetrics above `*/*`; else the summary."""
        accept = Accept(request.headers.get("accept", ""))
        if max(accept.rank(PLAIN), accept.rank(OPENMETRICS)) > accept.rank("*/*"):
            return await text(watch, accept)
        topics = [topic.name for topic in placement.shown_topics(services.broker)]
        answer = {
            "broker_id": services.broker.node_id,
            "leases": services.broker.leases.leases(),
            "owned_topics": topics,
            "gossip": placement.gossip(services),
        }
        return Json(answer)

    @routes.get("/metrics/prometheus", responses={200: _TEXT}, response_class=Response)
    async def prometheus(request: Request) -> Response:
        """Every metric, as text."""
        return await text(watch, Accept(request.headers.get("accept", "")))

    return routes


async def text(watch: Watch, accept: Accept) -> Response:
    openmetrics = accept.rank(OPENMETRICS) > accept.rank(PLAIN)
    body = await watch.exposition(openmetrics=openmetrics)
    return Response(body, media_type=OPENMETRICS_TYPE if openmetrics else TEXT_TYPE)
