"""Records that a queue gave up, on their way to the dead-letter topic: whole as they were, with the reason in headers.

The topic is made on first use, so that whatever fits into the queue's topic fits into it. A record that was there once
before is there twice after a crash at the wrong moment, never not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.configuration import STORAGE
from headrace.broker.queues.records import QueueKey
from headrace.broker.topic import Topic
from headrace.broker.wishes import NewTopic
from headrace.errors import HeadraceError
from headrace.log.config import Done
from headrace.records.batch import MAX_BATCH_BYTES
from headrace.records.record import Headers, Record

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.publishing.published import Published

PREFIX = "headrace.dead."
HEADER_ROOM = 4 << 10  # our headers, with the longest names and reasons
MAX_REASON = 1000  # characters that a member's reason may have; the rest is cut off

_NAMES = ("door", "topic", "group", "partition", "offset", "timestamp", "attempts", "reason", "time")


class DeadLetter(NamedTuple):
    """Where a record of a dead-letter topic came from, and why it is there."""

    queue: QueueKey
    partition: int
    offset: int
    timestamp_ms: int  # of the record
    attempts: int
    reason: str
    time_ms: int  # when it was given up


def headers_of(letter: DeadLetter) -> Headers:
    values = (*letter.queue, *letter[1:])
    return tuple((PREFIX + name, str(value).encode()) for name, value in zip(_NAMES, values, strict=True))


def without_ours(headers: Headers) -> Headers:
    """A record that dies for the second time tells of the second."""
    return tuple(header for header in headers if not header[0].startswith(PREFIX))


def letter_of(record: Record) -> DeadLetter | None:
    """None: it is none of ours."""
    found = {name[len(PREFIX) :]: value or b"" for name, value in record.headers if name.startswith(PREFIX)}
    try:
        texts = [found[name].decode() for name in _NAMES]
        door, topic, group, *numbers, reason, time_ms = texts
        partition, offset, timestamp_ms, attempts = map(int, numbers)
        return DeadLetter(QueueKey(door, topic, group), partition, offset, timestamp_ms, attempts, reason, int(time_ms))
    except (KeyError, ValueError):
        return None


def bury(broker: Broker, topic: Topic, name: str, record: Record, letter: DeadLetter, done: Done) -> None:
    """`done(None)` when it is safe."""

    def published(answer: Published | HeadraceError) -> None:
        done(answer if isinstance(answer, HeadraceError) else None)

    def publish(error: HeadraceError | None) -> None:
        if error is not None:
            done(error)
            return
        # With the time of its death, from which retention counts; its own is among the headers.
        headers = without_ours(record.headers) + headers_of(letter)
        dead = record._replace(headers=headers, timestamp_ms=letter.time_ms)
        try:
            broker.publishing.publish(name, dead, published, acks="all", create=False)
        except HeadraceError as refused:
            done(refused)

    if broker.topic(name) is None:
        size = min(MAX_BATCH_BYTES, topic.config.max_message_bytes + HEADER_ROOM)
        broker.make_topic(NewTopic(name, 1, configs={"max.message.bytes": str(size), STORAGE: "disk"}), publish)
    else:
        publish(None)
