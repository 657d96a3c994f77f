"""Publishing, subscribing, polling, committing."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, JsonValue

from headrace.doors.http.shapes.base import MAX_OFFSET, Shape

Index = Annotated[int, Field(ge=0, lt=1 << 31)]
NEEDED = "Needed on a topic with several partitions, unless a group holds the position."


class Publish(Shape, example={"key": "user-7", "value": {"total": 12}, "headers": {"source": "web"}}):
    """One record. `value` is any JSON and is kept as JSON text."""

    key: str | None = None
    value: JsonValue
    headers: dict[str, JsonValue] = Field(default={})


class Published(Shape, example={"topic": "orders", "offset": 41, "isr": [0]}):
    """`partition` where the topic has several or one was asked for, `duplicate` when the id was there already, `acks`
    when the request named a level."""

    topic: str
    offset: int
    isr: list[int]
    partition: int = 0
    duplicate: bool = False
    acks: str = "all"


class Subscribe(Shape, example={"topic": "orders", "consumer_id": "c1", "group_id": "billing"}):
    topic: str
    consumer_id: str | None = None
    group_id: str | None = None
    from_offset: int | None = Field(default=None, ge=-1 - MAX_OFFSET, le=MAX_OFFSET)
    partition: Index | None = Field(default=None, description=NEEDED)


class Subscribed(Shape, example={"topic": "orders", "start_offset": 0, "committed": -1, "replica_id": 0}):
    topic: str
    start_offset: int
    committed: int
    replica_id: int
    partition: int = 0


class Polled(
    Shape,
    example={"offset": 41, "ts_ms": 1760000000000, "key": "user-7", "value": {"total": 12}, "headers": {}},
):
    """A record. `value` is the JSON that was published; text that is no JSON is a string; other bytes are
    `{"base64": "…"}`. `partition` where the topic has several."""

    offset: int
    ts_ms: int
    key: str | dict[str, str] | None
    value: Any
    headers: dict[str, Any]
    partition: int = 0


class Poll(
    Shape,
    example={
        "topic": "orders",
        "records": [{"offset": 41, "ts_ms": 1760000000000, "key": "user-7", "value": {"total": 12}, "headers": {}}],
        "next_offset": 42,
        "committed": 40,
        "replica_id": 0,
    },
):
    """`next_offset`: after the last record, or where the poll began when nothing came."""

    topic: str
    records: list[Polled]
    next_offset: int
    committed: int
    replica_id: int
    partition: int = 0


class Commit(Shape, example={"topic": "orders", "offset": 41, "consumer_id": "c1", "group_id": "billing"}):
    """`offset`: of the last record that was processed; -1: none. It may go back."""

    topic: str
    offset: int
    consumer_id: str | None = None
    group_id: str | None = None
    partition: Index | None = Field(default=None, description=NEEDED)


class Committed(Shape, example={"topic": "orders", "committed": 41, "replica_id": 0}):
    topic: str
    committed: int
    replica_id: int
    partition: int = 0
