"""`/`: what is to be found here."""

from __future__ import annotations

from fastapi import APIRouter

from headrace import __version__
from headrace.doors.http.shapes.base import example

PAGES = {
    "/admin/topics": "topics and their nodes",
    "/brokers": "the nodes and where they are",
    "/metadata": "the same, for clients",
    "/stats": "who leads, who is there, how far topics are",
    "/queues": "groups whose records belong to members",
    "/healthz": "the process lives",
    "/readyz": "clients can be sent here, or why not",
    "/metrics": "a summary as JSON; metrics as text when the Accept header prefers that",
    "/metrics/prometheus": "metrics as Prometheus reads them",
    "/openapi.json": "this interface, described",
}


def router() -> APIRouter:
    routes = APIRouter(tags=["node"])

    @routes.get("/", responses={200: example({"name": "headrace", "version": __version__, "pages": PAGES})})
    async def index() -> dict[str, str | dict[str, str]]:
        """What is to be found here."""
        return {"name": "headrace", "version": __version__, "pages": PAGES}

    return routes
