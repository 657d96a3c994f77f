"""`/brokers`, `/replicas/{topic}`, `/metadata`, `/stats`: where nodes and topics are, for any client."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Response

from headrace.broker.topic import Topic
from headrace.doors.http import placement
from headrace.doors.http.answers import Json
from headrace.doors.http.refusals import NOT_FOUND
from headrace.doors.http.services import Services
from headrace.doors.http.shapes import placement as shapes
from headrace.doors.http.shapes.base import refusals
from headrace.errors import HeadraceError


def router(services: Services) -> APIRouter:
    routes = APIRouter(tags=["placement"])
    broker = services.broker

    @routes.get("/brokers", response_model=shapes.Brokers)
    async def brokers() -> Response:
        """The nodes that have an http door. None serves an election port: it is 0."""
        return Json({"brokers": placement.endpoints(services)})

    @routes.get("/replicas/{topic:path}", response_model=shapes.Replicas, responses=refusals(_404=NOT_FOUND))
    async def replicas(topic: str) -> Response:
        """The nodes that have a topic, its owner first."""
        found = services.topic(topic)
        owner, in_sync = placement.owner(found), placement.in_sync(found)
        nodes = [
            {
                "broker_id": node,
                "api_base": services.api_base(node),
                "is_owner": node == owner,
                "in_isr": node in in_sync,
            }
            for node in (owner, *placement.followers(found))
        ]
        return Json({"topic": topic, "owner": owner, "isr": in_sync, "replicas": nodes})

    @routes.get("/metadata", response_model=shapes.Metadata)
    async def metadata() -> Response:
        """Every topic with its nodes; `version` rises with each change."""
        topics = placement.all_nodes(broker)
        return Json({"leader_id": broker.controller_id, "version": broker.metadata_version, "topics": topics})

    @routes.get("/stats", response_model=shapes.Stats)
    async def stats() -> Response:
        """Who leads, who is there, and how far topics are."""
        leader = broker.controller_id
        is_leader = leader == broker.node_id
        progress = {topic.name: await _progress(topic) for topic in placement.shown_topics(broker)}
        answer = {
            "broker_id": broker.node_id,
            "timestamp": broker.clock.now_ms() / 1000,
            "election": {
                "leader_id": leader,
                "is_leader": is_leader,
                "state": "leader" if is_leader else "follower",
            },
            "gossip": placement.gossip(services),
            "replication": progress,
        }
        return Json(answer)

    return routes


async def _progress(topic: Topic) -> dict[str, Any]:
    """Of a topic that nobody has used since the start the log is opened for it."""
    first = topic.partitions[0]
    with suppress(HeadraceError):  # closed by a fault, or deleted meanwhile: that is told where it is used
        await first.opened()
    return {**placement.placed(topic), "latest_offset": -1 if first.log is None else first.log.written_offset - 1}
