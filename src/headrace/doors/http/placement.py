"""Where topics are, in the words of this protocol: an owner, followers, who is in sync.

The owner of a topic is the leader of its first partition; in sync is who is so in all of them. On one node all of it
is this node.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from headrace.broker.broker import Broker
from headrace.broker.topic import Topic
from headrace.doors.http.services import Services

ALIVE, ALIVE_PRIORITY = "alive", 2
NO_PORT = 0  # of elections: who leads is settled within the cluster


def shown_topics(broker: Broker) -> list[Topic]:
    """In order of their names, without those that are the broker's own."""
    return sorted((topic for topic in broker.topics() if not topic.internal), key=lambda topic: topic.name)


def owner(topic: Topic) -> int:
    return topic.partitions[0].leader


def followers(topic: Topic) -> list[int]:
    nodes = {node for partition in topic.partitions for node in partition.replicas}
    return sorted(nodes - {owner(topic)})


def in_sync(topic: Topic) -> list[int]:
    return sorted(set.intersection(*(set(partition.isr) for partition in topic.partitions)))


def placed(topic: Topic) -> dict[str, Any]:
    return {"owner": owner(topic), "followers": followers(topic), "isr": in_sync(topic)}


def alive(broker: Broker) -> list[int]:
    return sorted(broker.quorum.image.nodes)


def endpoints(services: Services) -> list[dict[str, Any]]:
    """Where the nodes are, for discovery: as the metadata has them."""
    bases = {node: services.api_base(node) for node in alive(services.broker)}
    return [
        {
            "broker_id": node,
            "api_base": base,
            "election_host": urlsplit(base).hostname or "",
            "election_port": NO_PORT,
        }
        for node, base in bases.items()
        if base
    ]


def all_nodes(broker: Broker) -> dict[str, list[int]]:
    return {topic.name: [owner(topic), *followers(topic)] for topic in shown_topics(broker)}


def gossip(services: Services) -> dict[str, Any]:
    """What this node would tell another: who is there, and where topics are."""
    broker = services.broker
    now = broker.clock.now_ms() / 1000
    membership = [
        {
            "node_id": str(node_id),
            "addr": services.api_base(node_id),
            "status": ALIVE,
            "incarnation": broker.quorum.image.nodes[node_id].incarnation,
            "status_priority": ALIVE_PRIORITY,
            "last_seen": now,
        }
        for node_id in alive(broker)
    ]
    metadata = {"version": broker.metadata_version, "topics": all_nodes(broker)}
    return {"from_id": str(broker.node_id), "membership": membership, "metadata": metadata}
