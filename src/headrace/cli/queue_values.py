"""What is known of queues, as commands show it, and how a node's http door is asked for it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote

import msgspec
import typer

from headrace.broker.queues.overview import QueueView
from headrace.cli import options, scrape
from headrace.cli.connecting import with_client
from headrace.cli.doors import door_of
from headrace.cli.exits import Refusal, not_found, usage
from headrace.cli.output import Column
from headrace.cli.parsing import show_duration, show_size, show_time

if TYPE_CHECKING:
    from headrace.aio import Client

T = TypeVar("T")

HTTP_VARIABLE = "HEADRACE_HTTP"

Topic = Annotated[str, typer.Argument(help="the queue's topic")]
Group = Annotated[str, typer.Argument(help="the queue's group")]
Door = Annotated[
    str | None, typer.Option("--door", metavar="DOOR", help="of which door, where several have the same: lines, binary")
]
Http = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="the node's http door", show_default="where the node says")
]


class Queues(msgspec.Struct, frozen=True):
    queues: list[QueueView]


class LetterRow(msgspec.Struct, frozen=True):
    """Where a record was, and why it is not delivered any more."""

    partition: int
    offset: int
    timestamp_ms: int
    attempts: int
    reason: str
    time_ms: int


class DeadRow(msgspec.Struct, frozen=True):
    """`partition` and `offset` are those of the dead-letter topic."""

    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: Any
    letter: LetterRow


class DeadRows(msgspec.Struct, frozen=True):
    dead: list[DeadRow]


class RedeliveredRow(msgspec.Struct, frozen=True):
    records: int
    gone: int
    unsettled: int


QUEUE_COLUMNS = [
    Column("topic"),
    Column("group"),
    Column("door"),
    Column("mode", show=str),
    Column("members", align="right", show=lambda members: str(len(members))),
    Column("lag", align="right"),
    Column("in_flight", align="right"),
    Column("made_ms", "made", wide=True, show=lambda ms: show_time(ms) if ms >= 0 else "-"),
]
PARTITION_COLUMNS = [
    Column(name, align="right")
    for name in ("partition", "start_offset", "end_offset", "lag", "in_flight", "waiting", "dying")
]
MEMBER_COLUMNS = [
    Column("name", "member"),
    Column("in_flight", align="right"),
    Column("in_flight_bytes", "bytes", align="right", show=show_size),
    Column("is_full", "full", show=lambda full: "yes" if full else "no"),
]
POLICY_COLUMNS = [
    Column("lock_ms", "lock", show=show_duration),
    Column("max_attempts", show=lambda count: str(count) if count else "no limit"),
    Column("backoff_ms", "backoff", show=show_duration),
    Column("dead_letter", show=lambda name: name or "off"),
]


class QueueDoor:
    """The http door of a node, asked about its queues."""

    def __init__(self, http: str | None) -> None:
        self._asked = options.current()
        given = http or os.environ.get(HTTP_VARIABLE)

        async def find(client: Client) -> str:
            return await door_of(client, "http", self._asked)

        self.address = given or with_client(find, self._asked)

    def every(self) -> list[QueueView]:
        return self._ask("GET", "/queues", Queues).queues

    def one(self, topic: str, group: str, door: str | None) -> QueueView:
        """Found without its door, if only one has it."""
        if door is None:
            doors = [queue.door for queue in self.every() if (queue.topic, queue.group) == (topic, group)]
            if not doors:
                raise not_found(f"topic {topic} has no queue {group}", "`headrace queue list` shows what there is")
            if len(doors) > 1:
                raise usage(f"several doors have a queue {group} of topic {topic}", f"--door {' or '.join(doors)}")
            (door,) = doors
        return self._ask("GET", path_of(door, topic, group), QueueView)

    def dead(self, queue: QueueView, limit: int, everything: bool) -> list[DeadRow]:
        path = f"{path_of(queue.door, queue.topic, queue.group)}/dead?limit={limit}&all={str(everything).lower()}"
        return self._ask("GET", path, DeadRows).dead

    def redeliver(self, queue: QueueView, places: Sequence[tuple[int, int]] | None) -> RedeliveredRow:
        body = msgspec.json.encode({} if places is None else {"places": places})
        return self._ask("POST", path_of(queue.door, queue.topic, queue.group) + "/redeliver", RedeliveredRow, body)

    def delete(self, queue: QueueView) -> None:
        self._ask("DELETE", path_of(queue.door, queue.topic, queue.group), dict)

    def _ask(self, method: str, path: str, kind: type[T], body: bytes | None = None) -> T:
        status, came = scrape.ask(self.address, method, path, self._asked.timeout_s, body)
        if status == 200:
            try:
                return msgspec.json.decode(came, type=kind)
            except msgspec.ValidationError as error:
                raise Refusal(f"{self.address} does not answer as this program expects: {error}") from None
        words = _words(came) or f"{self.address} answers {status}"
        if status == 404:
            raise not_found(words, "`headrace queue list` shows what there is")
        raise Refusal(words)


def path_of(*names: str) -> str:
    return "/queues/" + "/".join(quote(name, safe="") for name in names)


def _words(body: bytes) -> str:
    """Of a refusal."""
    try:
        detail = msgspec.json.decode(body)["detail"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return ""
    return detail if isinstance(detail, str) else msgspec.json.encode(detail).decode()
