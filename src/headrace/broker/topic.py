"""A topic as the broker serves it: its name, its meaning, its partitions."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from headrace.broker.config import TopicConfig
from headrace.broker.partition import Partition
from headrace.cluster.image import TopicImage
from headrace.errors import InvalidTopicName
from headrace.metrics import Traffic

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.dedup.topic_ids import TopicIds

STATE_TOPICS = frozenset(("__consumer_offsets", "__queue_state", "__transaction_state"))  # ours to write (state_topic)
SYSTEM = "!system"  # what the names of topics begin with in which a node tells of itself
READABLE_PREFIX = 40  # characters of the name in the folder's name: enough to recognise it


class Topic:
    __slots__ = (
        "config",
        "id",
        "ids",
        "image",
        "internal",
        "is_compacted",
        "is_guarded",
        "is_log_append_time",
        "is_ours",
        "is_state",
        "level",
        "name",
        "partitions",
        "traffic",
        "window_ms",
    )

    def __init__(self, broker: Broker, image: TopicImage) -> None:
        self.name, self.image, self.traffic = image.name, image, Traffic()
        self.id = uuid.UUID(bytes=image.topic_id)
        self.ids: TopicIds | None = None  # of its records, once somebody asked
        self.internal = image.name.startswith("__")
        self.is_state, self.is_ours = image.name in STATE_TOPICS, is_ours(image.name)
        self._mean(broker.configuration.topic_config(image.config))
        self.partitions = [Partition(broker, self, index, state) for index, state in enumerate(image.partitions)]

    @property
    def folder(self) -> str:
        return folder_name(self.name, self.image.topic_id)

    def reconfigure(self, broker: Broker) -> None:
        """Its settings, or the defaults under them, have changed."""
        before = self.config
        self._mean(broker.configuration.topic_config(self.image.config))
        if self.config != before:
            for partition in self.partitions:
                if partition.log is not None:
                    partition.log.configure(self.config.for_log())

    def _mean(self, config: TopicConfig) -> None:
        self.config = config
        self.window_ms = 0 if self.is_ours else config.dedup_window_ms
        if not self.window_ms:
            self.ids = None
        self.level = -1 if config.acks == "all" else int(config.acks)  # of who does not name one
        self.is_compacted, self.is_log_append_time = config.is_compacted, config.is_log_append_time
        self.is_guarded = self.is_compacted or self.is_ours  # not every batch is taken

    def grow(self, broker: Broker) -> None:
        """The image has more partitions."""
        for index in range(len(self.partitions), len(self.image.partitions)):
            self.partitions.append(Partition(broker, self, index, self.image.partitions[index]))


def is_ours(name: str) -> bool:
    """Whether the topic of that name is for the broker alone to write."""
    return name in STATE_TOPICS or name.startswith(SYSTEM)


def check_readable(name: str) -> None:
    """Refuses what is for no user: state is read through Kafka's door alone, as it is with Kafka."""
    if name in STATE_TOPICS:
        raise InvalidTopicName(f"{name!r} is the broker's own, and not for users of this door")


def folder_name(name: str, topic_id: bytes) -> str:
    """Readable for people, unique by the id: a deleted and re-created topic never meets its old files."""
    readable = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name[:READABLE_PREFIX])
    return f"{readable}-{topic_id.hex()}"
