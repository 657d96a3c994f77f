"""What the tests write into topics, and how they read it back without Spark."""

from __future__ import annotations

import random
import time
from typing import Any

from pyspark.sql import DataFrame

import headrace

Row = tuple[Any, ...]
BASE_MS = int(time.time() * 1000) - 3_600_000  # an hour ago: what is older than a week is not kept


def fill(
    address: str, topic: str, count: int, partitions: int = 3, compression: str = "none", first: int = 0
) -> list[Row]:
    """Null keys and values, empty ones, headers that repeat. Gives what was put: rows of `records`, without offsets."""
    chance = random.Random(count)
    put: list[Row] = []
    with headrace.connect(address) as client, client.producer(compression=compression, batch_bytes=3_000) as producer:
        for number in range(first, first + count):
            key = None if chance.random() < 0.3 else b"" if chance.random() < 0.1 else b"k%d" % number
            value = None if chance.random() < 0.1 else b"%d:" % number + chance.randbytes(chance.randrange(100))
            headers = [("same", b"1"), ("same", None)][: chance.randrange(3)]
            producer.put(topic, value, key, headers, number % partitions, BASE_MS + number)
            put.append((key, value, topic, number % partitions, BASE_MS + number, 0, tuple(headers)))
    return put


def create(address: str, topic: str, partitions: int = 3) -> None:
    with headrace.connect(address) as client:
        client.admin.create_topic(topic, partitions=partitions)


def records(address: str, topic: str, isolation: str = "read_committed") -> list[Row]:
    """As the rows of a DataFrame with headers, in order of partition and offset."""
    with headrace.connect(address) as client, client.consumer(topic, follow=False, isolation=isolation) as consumer:
        found = [
            (one.key, one.value, one.topic, one.partition, one.offset, one.timestamp_ms, 0, tuple(one.headers))
            for one in consumer
        ]
    return sorted(found, key=lambda row: row[3:5])


def rows(frame: DataFrame) -> list[Row]:
    """The same of a DataFrame with all columns and headers."""
    found = [
        (
            one.key,
            one.value,
            one.topic,
            one.partition,
            one.offset,
            round(one.timestamp.timestamp() * 1000),
            one.timestampType,
            _headers(one.headers),
        )
        for one in frame.collect()
    ]
    return sorted(found, key=lambda row: row[3:5])


def _headers(found: list[Any] | None) -> Row:
    """None are null, never an empty list, as in Spark's own source."""
    assert found is None or found
    return tuple((header.key, header.value) for header in found or ())


def values(address: str, topic: str) -> list[bytes | None]:
    """Of all committed records."""
    return [row[1] for row in records(address, topic)]
