"""Messages of one connection on their way to the broker.

A group of them (grouping.py) is stored and answered together, as one run, at a fraction of the cost of each by itself.
When the topic might refuse one of them they go one by one, so that none is refused for another's sake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.publishing import Published, by_key
from headrace.broker.topic import Topic
from headrace.doors.binary import replies
from headrace.doors.binary.replies import Refused, number
from headrace.errors import HeadraceError, MessageTooLarge, UnknownTopic
from headrace.wire.binary.frame import Frame, size_of
from headrace.wire.binary.messages import record_of

if TYPE_CHECKING:
    from headrace.doors.binary.connection import BinaryConnection
    from headrace.doors.tcp.answers import Answer

ADDED_BYTES = 64  # at most, to a message that lacks `created_at` or `version`


class Sent(NamedTuple):
    """What is kept of a message until it is answered."""

    sequence: int
    properties: dict[str, str]
    body_bytes: int


class Publisher:
    def __init__(self, connection: BinaryConnection) -> None:
        self._connection = connection
        self._broker, self._limits = connection.door.broker, connection.door.limits

    def publish(self, frames: list[Frame], answer: Answer) -> None:
        """Of one group. Raises Refused for all of them."""
        properties = frames[0].properties
        name = properties.get("topic")
        if not name:
            raise Refused(replies.MISSING_TOPIC)
        asked = properties.get("partition")
        partition = None if asked is None else number(asked)
        topic = self._connection.topic(name)
        count = len(topic.partitions)
        if partition is None:
            key = properties.get("key", "")
            partition = by_key(topic, key.encode()) if key and count > 1 else 0
        elif not 0 <= partition < count:
            raise Refused(replies.invalid_partition(partition))
        acks, now_ms = properties.get("acks"), self._broker.clock.now_ms()
        sent = [Sent(frame.sequence, frame.properties, len(frame.body)) for frame in frames]
        publishing, told = self._broker.publishing, partial(self._answer, sent, answer)
        self._connection.expect(len(frames) - 1)  # the group is one answer, and counts as so many
        if len(frames) > 1 and self._takes_all(topic, frames):
            records = [record_of(frame, now_ms) for frame in frames]
            publishing.publish_run(name, records, told, partition=partition, acks=acks, create=False)
            return
        each = _Each(len(frames), told)
        for place, frame in enumerate(frames):
            done = partial(each.done, place)
            if self._is_over(sent[place]):
                done(_TOO_LARGE)
            else:
                publishing.publish(name, record_of(frame, now_ms), done, partition=partition, acks=acks, create=False)

    def _takes_all(self, topic: Topic, frames: list[Frame]) -> bool:
        """The content of a message is smaller than its frame; only that, and a missing key, could be refused."""
        most = min(topic.config.max_message_bytes, self._limits.max_message_bytes or topic.config.max_message_bytes)
        return not topic.is_compacted and max(frame.size for frame in frames) + ADDED_BYTES <= most

    def _is_over(self, sent: Sent) -> bool:
        most = self._limits.max_message_bytes
        return most > 0 and size_of(sent.properties, sent.body_bytes) > most

    def _answer(
        self, sent: list[Sent], answer: Answer, results: Sequence[Published | HeadraceError] | HeadraceError
    ) -> None:
        connection, now_ms = self._connection, self._broker.clock.now_ms()
        if isinstance(results, HeadraceError):
            results = [results] * len(sent)
        out = [self._reply(one, now_ms, result) for one, result in zip(sent, results, strict=True)]
        connection.pipeline.give(answer, out[0] if len(out) == 1 else b"".join(out))
        connection.answered(len(sent) - 1)

    def _reply(self, sent: Sent, now_ms: int, result: Published | HeadraceError) -> bytes:
        metrics, properties = self._connection.door.metrics, sent.properties
        if not isinstance(result, HeadraceError):
            metrics.published += 1
            return replies.published(sent.sequence, now_ms, properties["topic"], result, properties.get("acks"))
        metrics.errors += 1
        return replies.refusal(sent.sequence, now_ms, self._why_not(result, sent))

    def _why_not(self, error: HeadraceError, sent: Sent) -> str:
        name = sent.properties["topic"]
        if isinstance(error, UnknownTopic):
            return replies.no_topic(name)
        if isinstance(error, MessageTooLarge):
            topic, size = self._broker.topic(name), size_of(sent.properties, sent.body_bytes)
            is_ours = topic is None or self._is_over(sent)
            most = self._limits.max_message_bytes if topic is None or is_ours else topic.config.max_message_bytes
            return replies.too_large(size, most)
        return str(error)


class _Each:
    """Messages that are published one by one, and answered together."""

    def __init__(self, count: int, told: Callable[[Sequence[Published | HeadraceError]], None]) -> None:
        self._results: list[Published | HeadraceError | None] = [None] * count
        self._due, self._told = count, told

    def done(self, place: int, result: Published | HeadraceError) -> None:
        self._results[place] = result
        self._due -= 1
        if not self._due:
            self._told([result for result in self._results if result is not None])


_TOO_LARGE = MessageTooLarge("over the door's own limit")
