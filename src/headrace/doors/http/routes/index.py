"""`/`: what is to be found here."""

from __future__ import annotations

from fastapi import APIRouter

from headrace import __version__
from headrace.doors.http.watch import Watch

PAGES = {
    "/healthz": "the process lives",
    "/readyz": "clients can be sent here, or why not",
    "/metrics": "a summary as JSON; metrics as text when the Accept header prefers that",
    "/metrics/prometheus": "metrics as Prometheus reads them",
    "/openapi.json": "this interface, described",
}


def router(watch: Watch) -> APIRouter:
    routes = APIRouter(tags=["node"])

    @routes.get("/")
    async def index() -> dict[str, str | dict[str, str]]:
        """What is to be found here."""
        return {"name": "headrace", "version": __version__, "pages": PAGES}

    return routes
