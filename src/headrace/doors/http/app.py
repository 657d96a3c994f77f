"""The application: the routes of every noun, with what they ask of the node. OpenAPI describes it at /openapi.json."""

from __future__ import annotations

from fastapi import FastAPI

from headrace import __version__
from headrace.doors.http.routes import health, index, metrics
from headrace.doors.http.watch import Watch


def new_app(watch: Watch) -> FastAPI:
    # No /docs and /redoc: their pages load scripts from elsewhere.
    app = FastAPI(title="Headrace", version=__version__, docs_url=None, redoc_url=None)
    for noun in (index, health, metrics):
        app.include_router(noun.router(watch))
    return app
