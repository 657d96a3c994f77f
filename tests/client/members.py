"""Members of groups, by another client (librdkafka), so that what ours tells of them is not told by itself."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from confluent_kafka import Consumer

JOIN_LIMIT_S = 30.0


@contextlib.contextmanager
def joined(
    address: str,
    group: str,
    topic: str,
    *,
    client_id: str = "member",
    count: int = 1,
    take: int = 0,
    protocol: str = "classic",
) -> Iterator[list[Consumer]]:
    """Members that have their partitions; with `take`, the first read so many records and committed them."""
    settings: dict[str, object] = {
        "bootstrap.servers": address,
        "group.id": group,
        "client.id": client_id,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if protocol == "classic":
        settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
        settings["partition.assignment.strategy"] = "range"
    members = [Consumer(settings) for _ in range(count)]
    try:
        for member in members:
            member.subscribe([topic])
        deadline = time.monotonic() + JOIN_LIMIT_S
        read = 0
        while not all(member.assignment() for member in members) or read < take:
            assert time.monotonic() < deadline, "the members were not given their partitions"
            for member in members:
                message = member.poll(0.1)  # also who has partitions already: it may have to give some up
                if message is not None and not message.error():
                    read += 1
                    if read == take:
                        member.commit(message, asynchronous=False)
        yield members
    finally:
        for member in members:
            member.close()
