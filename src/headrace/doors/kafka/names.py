"""Topic names at the Kafka door: how ours are spelt there (wire/kafka/names.py), and which a new topic may have."""

from __future__ import annotations

from headrace.errors import InvalidTopicName
from headrace.wire.kafka.names import MAX_ENCODED, MAX_NAME_BYTES, RESERVED_PREFIX, from_kafka, is_legal, to_kafka

__all__ = ["MAX_ENCODED", "MAX_NAME_BYTES", "RESERVED_PREFIX", "checked", "from_kafka", "is_legal", "to_kafka"]


def checked(name: str) -> str:
    """`from_kafka` of a name that a topic may be created with; refuses what Kafka refuses, and our prefix."""
    plain = from_kafka(name)
    if plain != name:
        return plain
    if name.startswith(RESERVED_PREFIX):
        raise InvalidTopicName(f"{RESERVED_PREFIX!r} is reserved for names that Kafka cannot spell")
    if is_legal(name):
        return name
    raise InvalidTopicName(f"topic name {name!r} is not 1 to {MAX_NAME_BYTES} of A-Z a-z 0-9 . _ - or is '.' or '..'")
