"""What somebody may ask of the cluster's topics, and the records that fulfil it: the defaults filled in, the settings
checked; the controller then decides."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headrace.broker import config
from headrace.broker.configuration import STORAGE, Configuration
from headrace.broker.topic import STATE_TOPICS, SYSTEM
from headrace.cluster import controller
from headrace.cluster.controller import Limits
from headrace.cluster.image import Image
from headrace.cluster.records import PartitionsAdded, TopicCreated
from headrace.errors import InvalidReplication, InvalidTopicName, UnknownTopic


class NewTopic(msgspec.Struct, frozen=True):
    """What somebody asks for: -1 means the default."""

    name: str
    partitions: int = -1
    replication: int = -1
    assignments: dict[int, tuple[int, ...]] | None = None
    configs: dict[str, str | None] = {}


class MorePartitions(msgspec.Struct, frozen=True):
    """`assignments`: of the new partitions alone, in their order."""

    topic: str
    total: int
    assignments: tuple[tuple[int, ...], ...] | None = None


def check_asked(wish: NewTopic, own: Mapping[str, NewTopic]) -> None:
    """What a client may not ask for, though the node itself may. `own`: the topics that hold state, as it makes them.
    Made in any other way (not compacted, in memory) they would forget it."""
    if wish.name.startswith(SYSTEM):
        raise InvalidTopicName(f"{wish.name!r}: names that begin with {SYSTEM} are for the node's own topics")
    if wish.name in STATE_TOPICS and wish != own.get(wish.name):
        raise InvalidTopicName(f"{wish.name!r} is the broker's own: it makes the topic when there is state to keep")


def create(
    image: Image, configuration: Configuration, wish: NewTopic, topic_id: bytes, limits: Limits, now_ms: int
) -> list[TopicCreated]:
    own = {name: value for name, value in wish.configs.items() if value is not None}
    if STORAGE not in own and configuration.default_storage != config.DEFAULTS.storage:
        own[STORAGE] = configuration.default_storage  # for good: a topic does not change its storage
    config.check(configuration.topic_config(own), own)
    new = controller.NewTopic(
        topic_id,
        wish.name,
        configuration.default_partitions if wish.partitions == -1 else wish.partitions,
        1 if wish.replication == -1 else wish.replication,
        _in_order(wish.assignments) if wish.assignments else None,
        own,
    )
    return controller.create_topic(image, new, limits, now_ms)


def grow(image: Image, wish: MorePartitions, limits: Limits) -> list[PartitionsAdded]:
    topic = image.names.get(wish.topic)
    if topic is None:
        raise UnknownTopic(f"no topic {wish.topic!r}")
    if wish.topic in STATE_TOPICS:
        raise InvalidTopicName(f"{wish.topic!r} keeps its partitions: what is where goes by how many there are")
    assignments = None if wish.assignments is None else [list(nodes) for nodes in wish.assignments]
    return controller.add_partitions(image, topic.topic_id, wish.total, assignments, limits)


def _in_order(assignments: dict[int, tuple[int, ...]]) -> list[list[int]]:
    if sorted(assignments) != list(range(len(assignments))):
        raise InvalidReplication("an assignment names the partitions 0, 1, 2 … each once")
    return [list(assignments[index]) for index in range(len(assignments))]
