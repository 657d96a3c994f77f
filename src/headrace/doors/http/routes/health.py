"""`/healthz`: is the process alive? `/readyz`: should clients be sent here? Each also by HEAD."""

from __future__ import annotations

from fastapi import APIRouter, Response

from headrace.doors.http.shapes.base import example
from headrace.doors.http.watch import Health, Readiness, Watch

NOT_READY = 503
_WELL = {
    "status": "ok",
    "node_id": 0,
    "cluster_id": "Q2x1c3Rlci1pZC1vZi0yMg",
    "version": "0.1.0",
    "time_ms": 1760000000000,
    "uptime_seconds": 12.5,
}
_READY = {"ready": True, "checks": [{"name": "disk", "ok": True, "why": ""}]}
_FULL = {"name": "disk", "ok": False, "why": "1024 bytes are left, fewer than 16777216"}


def router(watch: Watch) -> APIRouter:
    routes = APIRouter(tags=["node"])

    @routes.head("/healthz", include_in_schema=False)
    @routes.get("/healthz", responses={200: example(_WELL)})
    async def healthz() -> Health:
        """The process lives and its loop turns. `time_ms` is the node's clock."""
        return watch.health()

    @routes.head("/readyz", include_in_schema=False)
    @routes.get(
        "/readyz",
        responses={
            200: example(_READY),
            NOT_READY: {"model": Readiness, **example({"ready": False, "checks": [_FULL]})},
        },
    )
    async def readyz(response: Response) -> Readiness:
        """Listeners are up, metadata can be changed, no log has failed, and the disk has room."""
        readiness = await watch.readiness()
        if not readiness.ready:
            response.status_code = NOT_READY
        return readiness

    return routes
