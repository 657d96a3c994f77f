"""A topic as the broker serves it: its name, its meaning, its partitions."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from headrace.broker.config import TopicConfig
from headrace.broker.partition import Partition
from headrace.cluster.image import TopicImage
from headrace.metrics import Traffic

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

STATE_TOPICS = frozenset(("__consumer_offsets", "__transaction_state"))  # ours to write: see state_topic.py
READABLE_PREFIX = 40  # characters of the name in the folder's name: enough to recognise it


class Topic:
    __slots__ = (
        "config",
        "id",
        "image",
        "internal",
        "is_compacted",
        "is_log_append_time",
        "is_state",
        "name",
        "partitions",
        "traffic",
    )

    def __init__(self, broker: Broker, image: TopicImage) -> None:
        self.name, self.image, self.traffic = image.name, image, Traffic()
        self.id = uuid.UUID(bytes=image.topic_id)
        self._mean(broker.configuration.topic_config(image.config))
        self.internal = image.name.startswith("__")
        self.is_state = image.name in STATE_TOPICS
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
        self.is_compacted, self.is_log_append_time = config.is_compacted, config.is_log_append_time

    def grow(self, broker: Broker) -> None:
        """The image has more partitions."""
        for index in range(len(self.partitions), len(self.image.partitions)):
            self.partitions.append(Partition(broker, self, index, self.image.partitions[index]))


def folder_name(name: str, topic_id: bytes) -> str:
    """Readable for people, unique by the id: a deleted and re-created topic never meets its old files."""
    readable = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name[:READABLE_PREFIX])
    return f"{readable}-{topic_id.hex()}"
