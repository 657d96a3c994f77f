"""`headrace create-topic` and `headrace history`, at any door that has such a thing."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from headrace.cli.exits import usage
from headrace.cli.options import current
from headrace.cli.parsing import position
from headrace.cli.publish import DoorOption
from headrace.cli.speakers import speaker
from headrace.cli.speaking.saying import Saying
from headrace.cli.speaking.wishes import Create, Past, check
from headrace.client.values import Time


def create_topic(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="the topic's name")],
    door: DoorOption = "binary",
    partitions: Annotated[int | None, typer.Option(metavar="N", min=1, help="how many", show_default="1")] = None,
    retention: Annotated[
        int | None, typer.Option(metavar="HOURS", min=1, help="how long messages are kept: binary, kafka")
    ] = None,
    rf: Annotated[int | None, typer.Option("--rf", metavar="N", min=1, help="replicas: http, kafka")] = None,
    owner_id: Annotated[int | None, typer.Option(metavar="ID", help="the node that owns it: http")] = None,
) -> None:
    """Make a topic through any door that can: kafka, binary, json, http.

    Through the others a topic is made with its first message. `headrace topic create` knows more settings.

    Examples:
      headrace create-topic my_topic --partitions 2
      headrace create-topic demo-topic --door http --rf 1
    """
    given = {"--partitions": partitions, "--retention": retention, "--rf": rf, "--owner-id": owner_id}
    check("create-topic", door, given)
    with Saying(current(), is_one=True) as say, speaker(door) as at:
        at.create_topic(Create(topic, partitions or 1, retention, rf, owner_id), say)


def history(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="the topic's name")],
    count: Annotated[int | None, typer.Argument(metavar="[N]", help="how many", show_default="10")] = None,
    door: DoorOption = "lines",
    partition: Annotated[int | None, typer.Option(metavar="N", min=0, help="only of this partition")] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="POSITION", help="from here: @time, an offset: binary, json, http")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="POSITION", help="up to here, exclusive: binary, json, http")
    ] = None,
) -> None:
    """Print a topic's last messages, oldest first: lines, http, json, binary, kafka.

    With --from or --to all of that range is printed, a partition after the other, or the first N of it. A time means
    the first record of that time or later. `headrace consume` has ranges of Kafka's door.

    Examples:
      headrace history chat 5
      headrace history demo-topic 20 --door http -o jsonl
      headrace history my_topic --door binary --from @-1h --to @-10m
    """
    check("history", door, {"--partition": partition, "--from": start, "--to": end})
    from_offset, since_ms = _bound("--from", start)
    to_offset, until_ms = _bound("--to", end)
    wish = Past(topic, count, partition, from_offset, to_offset, since_ms, until_ms)
    if wish.is_range and count is not None and count < 1:
        raise usage(f"{count} is no number of messages of a range", "a number from 1 on, or none for all of it")
    with Saying(current()) as say, speaker(door) as at:
        at.history(wish, say)


def _bound(option: str, text: str | None) -> tuple[int | None, int | None]:
    """An offset, or a time."""
    if text is None:
        return None, None
    match position(text, time.time_ns() // 1_000_000):
        case Time(at_ms):
            return None, at_ms
        case int(offset) if offset >= 0:
            return offset, None
        case _:
            raise usage(f"{option} {text} is neither an offset nor a time", f"{option} 100, or {option} @-10m")
