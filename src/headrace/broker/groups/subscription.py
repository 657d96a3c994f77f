"""What consumers say under Kafka's own protocol type `consumer`: which topics a member wants.

version (2 bytes), topics (count, then each with its length in front); newer versions have more behind it, which only
assignors read. The group never needs to understand it: only what hangs on topics (deleting a position, letting it
expire) looks here, and takes what does not read for "not known".
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import HeadraceError
from headrace.wire.kafka.primitives import Reader

CONSUMER = "consumer"


def topics_of(metadata: bytes) -> set[str] | None:
    """None: it cannot be read."""
    reader = Reader(metadata, 0, len(metadata), flexible=False)
    try:
        reader.int16()
        return {reader.string() for _ in reader.array()}
    except HeadraceError:
        return None


def all_topics(metadata: Iterable[bytes]) -> set[str] | None:
    wanted: set[str] = set()
    for one in metadata:
        topics = topics_of(one)
        if topics is None:
            return None
        wanted |= topics
    return wanted
