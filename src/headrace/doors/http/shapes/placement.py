"""Where topics are: owners, followers, who is in sync. On one node it is everything."""

from __future__ import annotations

from typing import Any

from headrace.doors.http.shapes.base import Shape

_PLACED = {"owner": 0, "followers": [], "isr": [0]}


class Endpoint(Shape):
    broker_id: int
    api_base: str
    election_host: str
    election_port: int


class Brokers(
    Shape,
    example={
        "brokers": [
            {"broker_id": 0, "api_base": "http://127.0.0.1:8081", "election_host": "127.0.0.1", "election_port": 0}
        ]
    },
):
    brokers: list[Endpoint]


class Replica(Shape):
    broker_id: int
    api_base: str
    is_owner: bool
    in_isr: bool


class Replicas(
    Shape,
    example={
        "topic": "orders",
        "owner": 0,
        "isr": [0],
        "replicas": [{"broker_id": 0, "api_base": "http://127.0.0.1:8081", "is_owner": True, "in_isr": True}],
    },
):
    """The owner first."""

    topic: str
    owner: int
    isr: list[int]
    replicas: list[Replica]


class Placed(Shape, example=_PLACED):
    owner: int
    followers: list[int]
    isr: list[int]


class Topics(Shape, example={"leader_id": 0, "version": 7, "topics": {"orders": _PLACED}}):
    leader_id: int
    version: int
    topics: dict[str, Placed]


class TopicDescribed(
    Shape,
    example={"topic": "orders", "owner": 0, "followers": [], "isr": [0], "replica_count": 1, "alive_brokers": [0]},
):
    topic: str
    owner: int
    followers: list[int]
    isr: list[int]
    replica_count: int
    alive_brokers: list[int]


class TopicMade(Shape, example={"status": "ok", "topic": "orders", "owner_id": 0, "leader_id": 0}):
    status: str
    topic: str
    owner_id: int
    leader_id: int


class TopicDeleted(Shape, example={"status": "ok", "topic": "orders"}):
    status: str
    topic: str


class ReplicasChanged(
    Shape, example={"status": "ok", "topic": "orders", "owner": 0, "followers": [], "replica_count": 1}
):
    status: str
    topic: str
    owner: int
    followers: list[int]
    replica_count: int


class Leader(Shape, example={"broker_id": 0, "this_broker_is_leader": True, "leader_id": 0}):
    broker_id: int
    this_broker_is_leader: bool
    leader_id: int


class InSync(Shape):
    owner: int
    followers: list[int]
    isr: list[int]
    alive: dict[str, bool]
    min_sync_followers: int


class AllInSync(
    Shape,
    example={"leader_id": 0, "topics": {"orders": {**_PLACED, "alive": {"0": True}, "min_sync_followers": 0}}},
):
    leader_id: int
    topics: dict[str, InSync]


class Metadata(Shape, example={"leader_id": 0, "version": 7, "topics": {"orders": [0]}}):
    """Each topic with its nodes, the owner first."""

    leader_id: int
    version: int
    topics: dict[str, list[int]]


class Stats(
    Shape,
    example={
        "broker_id": 0,
        "timestamp": 1760000000.5,
        "election": {"leader_id": 0, "is_leader": True, "state": "leader"},
        "gossip": {"from_id": "0", "membership": [], "metadata": {"version": 7, "topics": {"orders": [0]}}},
        "replication": {"orders": {**_PLACED, "latest_offset": 41}},
    },
):
    """`latest_offset`: of the first partition; -1 when the topic is empty, or its log cannot be read."""

    broker_id: int
    timestamp: float
    election: dict[str, Any]
    gossip: dict[str, Any]
    replication: dict[str, dict[str, Any]]
