"""Whose settings a request is about: Kafka's kinds of resources, by their numbers, and how each is named.

Topics and brokers have settings here, and a broker's loggers have levels. A broker is named by its id, which must be
this node's; the empty name stands for all brokers, but not for their loggers. What else Kafka has (client metrics,
groups) has no settings yet, and is refused as Kafka refuses a kind that it does not know.
"""

from __future__ import annotations

from enum import IntEnum

from headrace.broker.broker import Broker
from headrace.broker.topic import Topic
from headrace.cluster.records import ALL_NODES
from headrace.doors.kafka.names import checked, from_kafka
from headrace.errors import UnknownTopic
from headrace.wire.kafka.errors import InvalidRequest


class Kind(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


# Where a value comes from, in Kafka's numbers; by the sources of broker/configuration.py.
SOURCES = {"topic": 1, "node": 2, "all nodes": 3, "static": 4, "default": 5, "logger": 6}

# The kinds of values, in Kafka's numbers; by those of broker/config.py.
KINDS = {"boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7}
UNKNOWN_KIND = 0


def kind_of(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        raise InvalidRequest(f"resources of the kind {number} have no settings here") from None


def topic_of(broker: Broker, name: str) -> Topic:
    topic = broker.topic(from_kafka(name))
    if topic is None:
        raise UnknownTopic(f"no topic {checked(name)!r}")
    return topic


def node_of(broker: Broker, name: str, *, or_all: bool) -> int:
    """The node's number; ALL_NODES for the empty name, where that is taken."""
    if or_all and not name:
        return ALL_NODES
    if name != str(broker.node_id):
        raise InvalidRequest(f"this is broker {broker.node_id}, and the request is about broker {name[:20]!r}: ask it")
    return broker.node_id
