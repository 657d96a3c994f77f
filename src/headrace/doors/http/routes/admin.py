"""`/admin/…`: topics are made, described, deleted; replicas come and go. On one node there is nowhere to put a second
replica: asking for it names the node that there is not.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from headrace.broker.broker import Broker, NewTopic
from headrace.broker.topic import Topic
from headrace.doors.http import placement
from headrace.doors.http.answers import Json
from headrace.doors.http.refusals import BAD, CONFLICT, MISSING, Refused, refused
from headrace.doors.http.services import Services
from headrace.doors.http.shapes import placement as shapes
from headrace.doors.http.shapes.base import refusals
from headrace.errors import HeadraceError, TopicExists

EXISTS = "TOPIC_EXISTS"
RF = "Replicas; as many as there are nodes, when there are fewer."
REMOVE_OWNER = "Cannot remove the owner. Reassign ownership first."
OWN = "'__queue_state' is the broker's own, and not for users of this door"
NODE = Query(ge=-(1 << 31), lt=1 << 31)
_MISSING = refusals(_404="Topic 'orders' not found")


def router(services: Services) -> APIRouter:
    routes = APIRouter(prefix="/admin", tags=["administration"])
    for add in (_all_topics, _nodes, _replicas, _one_topic):  # the last takes any path that is left
        add(routes, services.broker)
    return routes


def _found(broker: Broker, name: str) -> Topic:
    topic = broker.topic(name)
    if topic is None:
        raise Refused(MISSING, f"Topic '{name}' not found")
    return topic


def _all_topics(routes: APIRouter, broker: Broker) -> None:
    @routes.post(
        "/topics",
        response_model=shapes.TopicMade,
        responses=refusals(_400="Unknown owner_id 9") | _conflict(),
    )
    async def create(
        name: Annotated[str, Query(examples=["orders"])],
        owner_id: Annotated[int | None, NODE] = None,
        rf: Annotated[int, Query(ge=1, lt=1 << 15, description=RF)] = 3,
        partitions: Annotated[int, Query(ge=1, lt=1 << 31)] = 1,
    ) -> Response:
        """Makes a topic. One that is there stays as it is, unless `rf` means another number of nodes than it has."""
        nodes = placement.alive(broker)
        if owner_id is not None and owner_id not in nodes:
            raise Refused(BAD, f"Unknown owner_id {owner_id}")
        (made,) = await broker.create_topics([NewTopic(name, partitions, min(rf, len(nodes)))])
        if isinstance(made, TopicExists):
            raise Refused(CONFLICT, {"error": EXISTS, "topic": name})
        if isinstance(made, HeadraceError):
            raise refused(made)
        answer = {
            "status": "ok",
            "topic": name,
            "owner_id": placement.owner(made),
            "leader_id": broker.controller_id,
        }
        return Json(answer)

    @routes.get("/topics", response_model=shapes.Topics)
    async def topics() -> Response:
        """Every topic with its nodes."""
        answer = {
            "leader_id": broker.controller_id,
            "version": broker.metadata_version,
            "topics": {topic.name: placement.placed(topic) for topic in placement.shown_topics(broker)},
        }
        return Json(answer)


def _nodes(routes: APIRouter, broker: Broker) -> None:
    @routes.get("/leader", response_model=shapes.Leader)
    async def leader() -> Response:
        """Who decides about topics."""
        leader = broker.controller_id
        answer = {
            "broker_id": broker.node_id,
            "this_broker_is_leader": leader == broker.node_id,
            "leader_id": leader,
        }
        return Json(answer)

    @routes.get("/isr", response_model=shapes.AllInSync)
    async def isr() -> Response:
        """Who is in sync with whom."""
        nodes = {str(node): True for node in placement.alive(broker)}
        answer = {
            "leader_id": broker.controller_id,
            "topics": {
                topic.name: {
                    **placement.placed(topic),
                    "alive": nodes,
                    "min_sync_followers": topic.config.min_insync_replicas - 1,
                }
                for topic in placement.shown_topics(broker)
            },
        }
        return Json(answer)


def _replicas(routes: APIRouter, broker: Broker) -> None:
    @routes.post(
        "/topics/{topic:path}/replicas",
        response_model=shapes.ReplicasChanged,
        responses=_MISSING | refusals(_400="Unknown broker_id 9"),
    )
    async def add_replica(topic: str, broker_id_to_add: Annotated[int, NODE]) -> Response:
        """Puts a topic on one more node."""
        at, node = _found(broker, topic), broker_id_to_add
        if node not in placement.alive(broker):
            raise Refused(BAD, f"Unknown broker_id {node}")
        if node == placement.owner(at):
            raise Refused(BAD, f"Broker {node} is already the owner")
        raise Refused(BAD, f"Broker {node} is already a replica")

    @routes.delete(
        "/topics/{topic:path}/replicas/{broker_id}",
        response_model=shapes.ReplicasChanged,
        responses=_MISSING | refusals(_400=REMOVE_OWNER),
    )
    async def remove_replica(topic: str, broker_id: int) -> Response:
        """Takes a topic from a node that follows."""
        at = _found(broker, topic)
        if broker_id == placement.owner(at):
            raise Refused(BAD, REMOVE_OWNER)
        raise Refused(BAD, f"Broker {str(broker_id)[:20]} is not a replica")


def _one_topic(routes: APIRouter, broker: Broker) -> None:
    @routes.get("/topics/{topic:path}", response_model=shapes.TopicDescribed, responses=_MISSING)
    async def describe(topic: str) -> Response:
        """One topic, with its nodes."""
        at = _found(broker, topic)
        answer: dict[str, Any] = {
            "topic": topic,
            **placement.placed(at),
            "replica_count": 1 + len(placement.followers(at)),
            "alive_brokers": placement.alive(broker),
        }
        return Json(answer)

    @routes.delete("/topics/{topic:path}", response_model=shapes.TopicDeleted, responses=_MISSING | refusals(_400=OWN))
    async def delete(topic: str) -> Response:
        """Deletes a topic and its records."""
        if _found(broker, topic).is_state:
            raise Refused(BAD, f"'{topic}' is the broker's own, and not for users of this door")
        (error,) = await broker.delete_topics([topic])
        if error is not None:
            raise refused(error)
        return Json({"status": "ok", "topic": topic})


def _conflict() -> dict[int | str, dict[str, Any]]:
    return refusals(_409={"error": EXISTS, "topic": "orders"})
