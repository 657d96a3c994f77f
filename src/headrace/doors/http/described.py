"""All routes, by FastAPI, with what they ask of the node. OpenAPI describes them at /openapi.json. Imported when the
first request comes that the direct way does not take."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError

from headrace import __version__
from headrace.doors.http import unfit
from headrace.doors.http.answers import Json
from headrace.doors.http.polling import Positions
from headrace.doors.http.refusals import BAD, refused
from headrace.doors.http.routes import (
    admin,
    health,
    index,
    internal,
    metrics,
    placement,
    polling,
    publishing,
    queues,
    records,
    stream,
    websocket,
)
from headrace.doors.http.services import Services
from headrace.doors.http.shapes.base import EVERYWHERE
from headrace.errors import HeadraceError

DESCRIPTION = "Publish, poll, read and administer topics. What enters here is read through every other door."


def described(services: Services, positions: Positions) -> FastAPI:
    """All routes. No /docs and /redoc: their pages load scripts from elsewhere."""
    api = FastAPI(
        title="Headrace",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        responses=EVERYWHERE,
        strict_content_type=False,
    )
    api.add_exception_handler(RequestValidationError, unfit.answer)
    api.add_exception_handler(HeadraceError, _headrace_error)
    api.add_exception_handler(UnicodeEncodeError, _half_character)
    for router in (
        publishing.router(services),
        polling.router(positions),
        records.router(services),
        stream.router(services),
        websocket.router(services),
        placement.router(services),
        admin.router(services),
        queues.router(services),
        health.router(services.watch),
        metrics.router(services),
        internal.router(),
        index.router(),
    ):
        api.include_router(router)
    return api


async def _half_character(_: object, error: Exception) -> Json:
    """JSON can say half of a pair of surrogates; no text of ours can hold it."""
    return Json({"detail": f"there is half a character in the request: {error}"}, BAD)


async def _headrace_error(_: object, error: Exception) -> Json:
    assert isinstance(error, HeadraceError)
    refusal = refused(error)
    return Json({"detail": refusal.detail}, refusal.status_code, dict(refusal.headers or {}))
