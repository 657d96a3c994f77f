"""What a queue is told: by the door that opens it, by its topic's policy, and by the limits of the node.

A door says how the queue delivers and where a new one begins. All else is the topic's policy (`headrace.queue.*`, see
own_settings.py), unless the door says otherwise; what counts in the end is a Policy, which the machine knows alone.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from headrace.broker.config import TopicConfig
from headrace.broker.own_settings import DEAD_LETTER_OFF, GROUP_PLACE, TOPIC_PLACE

MAX_QUEUES = 10_000  # of one node, with a few kilobytes each while nobody is in them; more are refused
MAX_MEMBERS = 1_000  # of one queue: each record looks for a member with room among them
MAX_NAME_BYTES = 255  # of a group's name: it is in the key of each of its records
MEMBER_RECORDS = 500  # that one member may hold, unless its door says otherwise
MEMBER_BYTES = 4 << 20
QUEUE_RECORDS = (
    2_000  # in flight in one queue, as Kafka's share groups have it: what is kept of it stays some kilobytes
)
QUEUE_BYTES = 8 << 20  # in memory for one queue; it reads on below this, so one read more than this at most
NODE_BYTES = 256 << 20  # in memory for all queues; beyond it each goes on with what it has, record by record
READ_BYTES = 128 << 10  # of one read: large enough to be few, small enough for one turn
CLAIM_RECORDS = 1_000  # at most once: how many go out with one written position
CLAIM_BYTES = 1 << 20
MAX_REDELIVERED = 10_000  # records that one request may have delivered again
MAX_BACKOFF_S = 60.0
RETRY_S = 1.0  # until what could not be written is tried again


class QueueSettings(msgspec.Struct, frozen=True):
    """As a door opens a queue. None: as the topic's policy has it."""

    at_most_once: bool = False  # settled before it is delivered; else a member settles it
    start: Literal["end", "start"] = "end"  # where a new queue begins
    lock_ms: int | None = None
    max_attempts: int | None = None
    backoff_ms: int | None = None
    dead_letter: str | None = None  # as the topic setting
    in_flight_records: int = QUEUE_RECORDS
    in_flight_bytes: int = QUEUE_BYTES


class Policy(NamedTuple):
    """What counts, for the machine."""

    at_most_once: bool = False
    lock_s: float = 30.0
    max_attempts: int = 5  # 0: no limit
    backoff_s: float = 1.0
    has_dead_letter: bool = True
    records: int = QUEUE_RECORDS  # in flight, of one partition
    bytes: int = QUEUE_BYTES  # in memory, of one partition

    def delay_s(self, attempts: int) -> float:
        """Before the attempt that follows so many."""
        return min(MAX_BACKOFF_S, self.backoff_s * 2.0 ** min(attempts - 1, 30)) if self.backoff_s else 0.0


def policy(settings: QueueSettings, topic: TopicConfig, partitions: int) -> Policy:
    """The queue's bounds are shared out evenly: a partition that is stuck leaves the others theirs."""
    lock_ms = topic.queue_lock_ms if settings.lock_ms is None else settings.lock_ms
    backoff_ms = topic.queue_backoff_ms if settings.backoff_ms is None else settings.backoff_ms
    return Policy(
        settings.at_most_once,
        lock_ms / 1000,
        topic.queue_max_attempts if settings.max_attempts is None else settings.max_attempts,
        backoff_ms / 1000,
        _pattern(settings, topic) != DEAD_LETTER_OFF,
        max(1, settings.in_flight_records // max(1, partitions)),
        max(1, settings.in_flight_bytes // max(1, partitions)),
    )


def dead_letter_name(settings: QueueSettings, config: TopicConfig, topic: str, group: str) -> str | None:
    """The topic for what the queue gives up; None: it is dropped."""
    pattern = _pattern(settings, config)
    if pattern == DEAD_LETTER_OFF:
        return None
    # The group first: a topic may have the other's place in its name.
    before, *after = pattern.split(GROUP_PLACE)
    name = group.join(part.replace(TOPIC_PLACE, topic) for part in (before, *after))
    return name if name != topic else f"{topic}.dead"  # never back into the queue that gave it up


def _pattern(settings: QueueSettings, config: TopicConfig) -> str:
    return config.queue_dead_letter if settings.dead_letter is None else settings.dead_letter
