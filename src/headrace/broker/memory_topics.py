"""Soft memory topics: a ring on this node that comes with its first use and goes when nobody uses it any more.

- None is in the metadata log: who publishes never waits for it, and a restart begins without them. Each has its own
  topic id, and offsets that its next life does not give out again (log/memory.py).
- To every door it is a topic like any other, but that its settings and partitions cannot be changed: whoever wants
  that makes the topic, and the one that is made takes its place.
- One that nobody published to, read, or asked about for an hour is dropped. Who merely waits for more does not hold it:
  the next life of the topic finds those who wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.configuration import STORAGE
from headrace.broker.topic import Topic
from headrace.cluster.controller import check_topic_name
from headrace.cluster.image import PartitionImage, TopicImage
from headrace.errors import HeadraceError, InvalidTopicName, LimitReached, UnknownTopic
from headrace.log.memory import MemoryLog

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

MAX_TOPICS = 10_000  # at one time: with the first block of a ring for each some 60 MB, however short their names live
IDLE_MS = 3_600_000
RING_BYTES = 16 << 20  # of one: seconds of what a busy publisher sends; all of them share the store's budget
LOOK_MS = 60_000  # between one look for unused ones and the next
DROPPED_AT_ONCE = 250  # in one look: some ms; if more are unused, the next look is soon
OURS = "__"  # what the names of the broker's own topics begin with


class _Use:
    """What was seen of a topic at the last look, and when it was found in use."""

    __slots__ = ("at_ms", "reads", "written")

    def __init__(self, at_ms: int) -> None:
        self.at_ms, self.reads, self.written = at_ms, 0, 0


class MemoryTopics:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._uses: dict[Topic, _Use] = {}
        self._next_look_ms = 0
        self.version = 0  # rises when one comes or goes

    def __len__(self) -> int:
        return len(self._uses)

    def __contains__(self, topic: Topic) -> bool:
        return topic in self._uses

    def get_or_create(self, name: str) -> Topic:
        """The topic of that name, whatever it is, or a new memory topic. Who keeps it looks whether it is still there:
        its partition's `error` is None."""
        topic = self._broker.topic(name)
        return topic if topic is not None else self._create(name)

    def used(self, topic: Topic) -> None:
        """Somebody asked for this very topic."""
        use = self._uses.get(topic)
        if use is not None:
            use.at_ms = self._broker.clock.now_ms()

    def drop(self, topic: Topic, why: HeadraceError) -> None:
        del self._uses[topic]
        self.version += 1
        self._broker.forget(topic, why)
        self._broker.on_event("topic.memory-dropped", {"topic": topic.name, "why": str(why)})

    def look(self, now_ms: int) -> None:
        """Now and then: for those that nobody uses."""
        if self._next_look_ms - LOOK_MS <= now_ms < self._next_look_ms:
            return
        self._next_look_ms = now_ms + LOOK_MS
        left = DROPPED_AT_ONCE
        for topic, use in list(self._uses.items()):
            log = topic.partitions[0].log
            if isinstance(log, MemoryLog) and (log.written_offset, log.reads) != (use.written, use.reads):
                use.written, use.reads, use.at_ms = log.written_offset, log.reads, now_ms
            elif now_ms - use.at_ms >= IDLE_MS:
                if not left:
                    self._next_look_ms = now_ms
                    break
                left -= 1
                self.drop(topic, UnknownTopic(f"memory topic {topic.name!r} was not used for an hour"))
            use.at_ms = min(use.at_ms, now_ms)  # the clock may have been set back

    def _create(self, name: str) -> Topic:
        broker = self._broker
        check_topic_name(name)
        if name.startswith(OURS):
            raise InvalidTopicName(f"{name!r}: names that begin with {OURS} are for the broker's own topics")
        if len(self._uses) >= MAX_TOPICS:
            raise LimitReached(f"{MAX_TOPICS} memory topics are there: delete some, or wait until unused ones go")
        now_ms, node_id = broker.clock.now_ms(), broker.node_id
        partition = PartitionImage([node_id], [node_id], node_id)
        config = {STORAGE: "memory", "retention.bytes": str(RING_BYTES), "headrace.dedup.window.ms": "0"}
        topic = Topic(broker, TopicImage(broker.new_id(), name, [partition], config, now_ms))
        self._uses[topic] = _Use(now_ms)
        self.version += 1
        broker.remember(topic)
        broker.on_event("topic.memory-created", {"topic": name})
        return topic
