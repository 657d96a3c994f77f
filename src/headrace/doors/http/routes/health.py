"""`/healthz`: is the process alive? `/readyz`: should clients be sent here? Each also by HEAD."""

from __future__ import annotations

from fastapi import APIRouter, Response

from headrace.doors.http.watch import Health, Readiness, Watch

NOT_READY = 503


def router(watch: Watch) -> APIRouter:
    routes = APIRouter(tags=["node"])

    @routes.head("/healthz", include_in_schema=False)
    @routes.get("/healthz")
    async def healthz() -> Health:
        """The process lives and its loop turns. `time_ms` is the node's clock."""
        return watch.health()

    @routes.head("/readyz", include_in_schema=False)
    @routes.get("/readyz", responses={NOT_READY: {"model": Readiness}})
    async def readyz(response: Response) -> Readiness:
        """Listeners are up, metadata can be changed, no log has failed, and the disk has room."""
        readiness = await watch.readiness()
        if not readiness.ready:
            response.status_code = NOT_READY
        return readiness

    return routes
