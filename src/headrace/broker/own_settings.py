"""The topic settings that are ours, `headrace.*`: rows of the table in config.py.

The default for all topics has the same name; but not of the storage, which is chosen when a topic is created and stays.
"""

from __future__ import annotations

from headrace.broker.topic_setting import Setting
from headrace.broker.values import MAX_INT, MAX_LONG, Value, acks, one_of, shown, whole
from headrace.errors import InvalidConfig

DEAD_LETTER_OFF = "off"
TOPIC_PLACE, GROUP_PLACE = "{topic}", "{group}"
MAX_PATTERN = 249  # bytes: a topic's name is not longer


def _dead_letter(text: str) -> Value:
    text = text.strip()
    if not text or text in (TOPIC_PLACE, ".", "..") or len(text.encode()) > MAX_PATTERN or not text.isprintable():
        raise InvalidConfig(
            f"takes off or a topic's name ({TOPIC_PLACE} and {GROUP_PLACE} stand for the queue's), not {shown(text)}"
        )
    return text


OWN: tuple[Setting, ...] = (
    Setting(
        "headrace.storage",
        "storage",
        "string",
        "disk",
        one_of("disk", "memory"),
        "disk: a replicated log. memory: a bounded ring that loses its oldest records, and all at a restart. "
        "Chosen when the topic is created.",
    ),
    Setting(
        "headrace.acks",
        "acks",
        "string",
        "all",
        acks,
        "When a record counts as published, for who does not say. 0: received. 1: written. all: synced, by all "
        "replicas in sync. A number over 1: as all, and refused unless so many are in sync. Kafka's producers always "
        "say.",
        "headrace.acks",
    ),
    Setting(
        "headrace.dedup.window.ms",
        "dedup_window_ms",
        "long",
        0,
        whole(0, MAX_LONG),
        "How long the `id` header of a record is remembered: another record with that id stores nothing, and is "
        "answered with the place of the first. 0: not at all. Records of transactions are left alone.",
        "headrace.dedup.window.ms",
    ),
    Setting(
        "headrace.queue.lock.ms",
        "queue_lock_ms",
        "long",
        30_000,
        whole(1, MAX_INT),
        "How long a member of a queue has for a record; then another gets it.",
        "headrace.queue.lock.ms",
    ),
    Setting(
        "headrace.queue.max.attempts",
        "queue_max_attempts",
        "int",
        5,
        whole(0, MAX_INT),
        "How often a queue delivers a record that nobody acknowledges, before it goes to the dead-letter topic; "
        "0: for ever.",
        "headrace.queue.max.attempts",
    ),
    Setting(
        "headrace.queue.backoff.ms",
        "queue_backoff_ms",
        "long",
        1_000,
        whole(0, MAX_LONG),
        "How long a queue waits before the second attempt; each further one waits twice as long, up to a minute.",
        "headrace.queue.backoff.ms",
    ),
    Setting(
        "headrace.queue.dead.letter",
        "queue_dead_letter",
        "string",
        "{topic}.dead",
        _dead_letter,
        "The topic for records that a queue gives up, with the reason in their headers; {topic} and {group} stand for "
        "the queue's. off: they are dropped.",
        "headrace.queue.dead.letter",
    ),
)
