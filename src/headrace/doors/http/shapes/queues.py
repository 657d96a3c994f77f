"""Queues: groups whose records belong to members."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from headrace.doors.http.shapes.base import Shape

_LETTER = {
    "partition": 0,
    "offset": 41,
    "timestamp_ms": 1760000000000,
    "attempts": 5,
    "reason": "not acknowledged in time",
    "time_ms": 1760000150000,
}
_QUEUE: dict[str, Any] = {
    "door": "lines",
    "topic": "jobs",
    "group": "workers",
    "mode": "at-least-once",
    "members": [{"name": "127.0.0.1:50012", "in_flight": 1, "in_flight_bytes": 12, "is_full": False}],
    "lag": 3,
    "in_flight": 1,
    "made_ms": 1760000000000,
    "redelivered_ms": -1,
    "policy": {"lock_ms": 30000, "max_attempts": 5, "backoff_ms": 1000, "dead_letter": "jobs.dead"},
    "counts": {"delivered": 9, "acknowledged": 8},
    "partitions": [],
}


class Queue(Shape, example=_QUEUE):
    """`lag`: records that are not settled; null when no one has opened the log since the start."""

    door: str
    topic: str
    group: str
    mode: str
    members: list[dict[str, Any]]
    lag: int | None
    in_flight: int
    made_ms: int
    redelivered_ms: int
    policy: dict[str, Any] | None
    counts: dict[str, int]
    partitions: list[dict[str, Any]]


class Queues(Shape, example={"queues": [_QUEUE]}):
    queues: list[Queue]


class Letter(Shape, example=_LETTER):
    """Where a record came from, and why it was given up."""

    partition: int
    offset: int
    timestamp_ms: int
    attempts: int
    reason: str
    time_ms: int


class DeadRecord(Shape):
    """A record of the dead-letter topic, at its place there."""

    partition: int
    offset: int
    timestamp_ms: int
    key: str | dict[str, str] | None
    value: Any
    headers: dict[str, Any]
    letter: Letter


class DeadRecords(
    Shape,
    example={
        "dead": [
            {
                "partition": 0,
                "offset": 0,
                "timestamp_ms": 1760000150000,
                "key": None,
                "value": "job 41",
                "headers": {},
                "letter": _LETTER,
            }
        ]
    },
):
    dead: list[DeadRecord]


class Redeliver(Shape, example={"places": [[0, 41]]}):
    """Which: partition and offset of each in the queue's own topic. Without it: all that were given up."""

    places: list[tuple[int, int]] | None = Field(default=None, max_length=10_000)


class Redelivered(Shape, example={"records": 1, "gone": 0, "unsettled": 0}):
    """`gone`: the topic does not hold them any more. `unsettled`: they are on their way anyhow."""

    records: int
    gone: int
    unsettled: int


class QueueDeleted(Shape, example={"status": "ok"}):
    status: str
