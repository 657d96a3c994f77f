"""What is asked of a door, which door takes which option, and what is heard.

An option that a door has no use for is refused, with the doors that have one: nothing is silently dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, get_args

import msgspec

from headrace.cli.exits import Refusal, usage
from headrace.errors import UnknownTopic

Door = Literal["kafka", "binary", "lines", "json", "http", "msgpack"]
DOORS: tuple[str, ...] = get_args(Door)
LAST = 10  # messages, unless somebody says


class Publish(msgspec.Struct, frozen=True):
    topic: str
    partition: int | None = None
    key: str | None = None
    headers: Mapping[str, str] = {}
    properties: Mapping[str, str] = {}
    is_json: bool = False
    message_id: str | None = None
    client_id: str | None = None


class Subscribe(msgspec.Struct, frozen=True):
    topic: str
    partition: int | None = None
    offset: int | None = None
    count: int | None = None
    group: str | None = None
    ack: bool = False
    """Whether the group's message is done when it was shown; otherwise it is when it was sent."""
    history: int | None = None
    group_id: str | None = None
    consumer_id: str | None = None
    max_records: int | None = None
    no_commit: bool = False
    show_idle: bool = False
    prefer_replica: int | None = None
    client_id: str | None = None
    wait_s: float = 15.0
    """How long a poll waits for news."""


class Create(msgspec.Struct, frozen=True):
    topic: str
    partitions: int = 1
    retention_hours: int | None = None
    rf: int | None = None
    owner_id: int | None = None


class Past(msgspec.Struct, frozen=True):
    """The last `count`; or, with a bound, a range, of which the ends are left out, and at most `count` of it."""

    topic: str
    count: int | None = None
    partition: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_range(self) -> bool:
        return (self.from_offset, self.to_offset, self.since_ms, self.until_ms) != (None, None, None, None)

    @property
    def last(self) -> int:
        return LAST if self.count is None else self.count


class Heard(msgspec.Struct, frozen=True):
    """A message as a program gets it; null is what the door does not tell."""

    door: str
    topic: str
    value: Any
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    id: str | None = None
    key: Any = None
    headers: dict[str, Any] = {}


class Done(msgspec.Struct, frozen=True):
    """What became of a request."""

    door: str
    topic: str
    answer: Any
    partition: int | None = None
    offset: int | None = None


Say = Callable[[str, Heard | Done | None], None]
"""The door's own words, and the same for programs; None: words for people alone."""


class Speaker(Protocol):
    def publish(self, wish: Publish, messages: Iterable[str], say: Say) -> None: ...

    def subscribe(self, wish: Subscribe, say: Say) -> None: ...

    def create_topic(self, wish: Create, say: Say) -> None: ...

    def history(self, wish: Past, say: Say) -> None: ...


TAKES: dict[str, dict[str, tuple[str, ...]]] = {
    "publish": {
        "--partition": ("kafka", "binary", "json", "http"),
        "--key": ("kafka", "binary", "http"),
        "--headers": ("kafka", "http"),
        "--properties": ("binary",),
        "--json": ("json", "http", "msgpack"),
        "--id": ("kafka", "binary", "lines", "http"),
        "--client-id": ("binary",),
    },
    "subscribe": {
        "--partition": ("kafka", "binary", "json", "http"),
        "--offset": ("kafka", "binary", "json", "http"),
        "--group": ("binary", "lines"),
        "--ack": ("binary", "lines"),
        "--history": ("lines",),
        "--group-id": ("http",),
        "--consumer-id": ("http",),
        "--max-records": ("http",),
        "--no-commit": ("http",),
        "--show-idle": ("http",),
        "--prefer-replica": ("http",),
        "--client-id": ("binary",),
    },
    "create-topic": {
        "--partitions": ("kafka", "binary", "json", "http"),
        "--retention": ("kafka", "binary"),
        "--rf": ("kafka", "http"),
        "--owner-id": ("http",),
    },
    "history": {
        "--partition": ("kafka", "binary", "json", "http"),
        "--from": ("binary", "json", "http"),
        "--to": ("binary", "json", "http"),
    },
}


def check(command: str, door: str, given: Mapping[str, object]) -> None:
    """`given`: options and what they got; None, False and nothing at all are not given."""
    if door not in DOORS:
        raise usage(f"--door {door} is no door", f"one of {', '.join(DOORS)}")
    for option, value in given.items():
        doors = TAKES[command][option]
        is_given = value is not None and value is not False and value not in ((), [], {})  # 0 is given
        if is_given and door not in doors:
            raise usage(f"the {door} door has no use for {option}", f"--door {' or '.join(doors)}")


def unknown(topic: str) -> UnknownTopic:
    """The same words and the same exit code, whatever the door's own words are."""
    return UnknownTopic(f"topic {topic!r}: there is no such topic")


def impossible(door: str, what: str, doors: Iterable[str]) -> Refusal:
    return usage(f"the {door} protocol has no way to {what}", f"--door {' or '.join(doors)}")
