"""`/internal/…` and `/_gossip/…`: what nodes of a cluster say to each other, with the cluster's secret. A node that is
in no cluster has none, and says so. `/register` is discovery's, and nobody is added by it."""

from __future__ import annotations

from fastapi import APIRouter

from headrace.doors.http.refusals import Refused

FORBIDDEN = 403
WORDS = "for nodes of a cluster, with the cluster's secret: this node is in no cluster"
REGISTERED = "nodes register through the cluster's metadata log, not here; GET /brokers lists those that there are"
METHODS = ["GET", "POST", "PUT", "DELETE"]


def router() -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    async def refuse(rest: str = "") -> None:
        raise Refused(FORBIDDEN, WORDS)

    async def refuse_to_register() -> None:
        raise Refused(FORBIDDEN, REGISTERED)

    routes.add_api_route("/register", refuse_to_register, methods=["POST"], response_model=None)
    for path in ("/internal/{rest:path}", "/_gossip/{rest:path}"):
        routes.add_api_route(path, refuse, methods=METHODS, response_model=None)
    return routes
