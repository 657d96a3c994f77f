"""Ranges of records, and many records in one request."""

from __future__ import annotations

from typing import Any

from pydantic import Field, JsonValue

from headrace.doors.http.shapes.base import Shape
from headrace.doors.http.shapes.client import Index, Polled

EXAMPLE: dict[str, Any] = {
    "offset": 41,
    "ts_ms": 1760000000000,
    "key": None,
    "value": "hello",
    "headers": {},
    "partition": 0,
    "id": "msg_0-41_09a7c08a",
}


class Recorded(Polled, example=EXAMPLE):
    """A record as in a poll, and its `id`: the header of that name, else one made of its place."""

    id: str


class Page(Shape, example={"topic": "orders", "records": [EXAMPLE], "next_page": None}):
    """`next_page`: for the parameter `page` of the next request; null at the end of the range."""

    topic: str
    records: list[Recorded]
    next_page: str | None


class NewRecord(Shape, example={"key": "user-7", "value": {"total": 12}, "id": "order-1"}):
    """`value` is any JSON, `value_base64` bytes as they are; neither: a record without a value. `id` is for topics that
    know repeated messages by it; it is kept as the header `id`."""

    key: str | None = None
    value: JsonValue = None
    value_base64: str | None = None
    headers: dict[str, JsonValue] = Field(default={})
    partition: Index | None = None
    timestamp_ms: int | None = Field(default=None, ge=0, le=1 << 62)
    id: str | None = None


class NewRecords(Shape, example={"records": [{"key": "a", "value": 1}, {"key": "b", "value": "two"}]}):
    records: list[NewRecord]


class Result(Shape, example={"partition": 0, "offset": 42}):
    """Of one record: where it is, or why not. `duplicate`: its id was there already, and that is where."""

    partition: int | None = None
    offset: int | None = None
    duplicate: bool = False
    status: int | None = None
    detail: str | None = None


class Results(
    Shape,
    example={
        "topic": "orders",
        "published": 1,
        "failed": 1,
        "results": [{"partition": 0, "offset": 42}, {"status": 413, "detail": "1200000 bytes are over the limit"}],
    },
):
    """In the order of the request."""

    topic: str
    published: int
    failed: int
    results: list[Result]
    acks: str = "all"
