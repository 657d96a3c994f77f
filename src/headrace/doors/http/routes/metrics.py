"""`/metrics`: a summary as JSON, or metrics as text by the Accept header; `/metrics/prometheus`: always text."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from headrace.doors.http.accept import OPENMETRICS, PLAIN, Accept
from headrace.doors.http.watch import Summary, Watch

TEXT_TYPE = f"{PLAIN}; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"
_TEXT: dict[str, Any] = {"content": {PLAIN: {}, OPENMETRICS: {}}}


def router(watch: Watch) -> APIRouter:
    routes = APIRouter(tags=["metrics"])

    @routes.get("/metrics", responses={200: {"model": Summary, **_TEXT}}, response_model=None)
    async def metrics(request: Request) -> Summary | Response:
        """Text when the Accept header ranks `text/plain` or OpenMetrics above `*/*`; else the summary."""
        accept = Accept(request.headers.get("accept", ""))
        if max(accept.rank(PLAIN), accept.rank(OPENMETRICS)) > accept.rank("*/*"):
            return await text(watch, accept)
        return watch.summary()

    @routes.get("/metrics/prometheus", responses={200: _TEXT}, response_class=Response)
    async def prometheus(request: Request) -> Response:
        """Every metric, as text."""
        return await text(watch, Accept(request.headers.get("accept", "")))

    return routes


async def text(watch: Watch, accept: Accept) -> Response:
    openmetrics = accept.rank(OPENMETRICS) > accept.rank(PLAIN)
    body = await watch.exposition(openmetrics=openmetrics)
    return Response(body, media_type=OPENMETRICS_TYPE if openmetrics else TEXT_TYPE)
