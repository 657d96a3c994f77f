"""`headrace create-topic` and `headrace history`, at any door that has such a thing."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.doors import speaker
from headrace.cli.options import current
from headrace.cli.publish import DoorOption
from headrace.cli.speaking.saying import Saying
from headrace.cli.speaking.wishes import Create, check


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
    with Saying(current(), is_one=True) as say:
        speaker(door).create_topic(Create(topic, partitions or 1, retention, rf, owner_id), say)


def history(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="the topic's name")],
    count: Annotated[int, typer.Argument(metavar="[N]", help="how many")] = 10,
    door: DoorOption = "lines",
    partition: Annotated[int | None, typer.Option(metavar="N", min=0, help="only of this partition")] = None,
) -> None:
    """Print a topic's last messages, oldest first: lines, http, json, kafka.

    Examples:
      headrace history chat 5
      headrace history demo-topic 20 --door http -o jsonl
    """
    check("history", door, {"--partition": partition})
    with Saying(current()) as say:
        speaker(door).history(topic, count, partition, say)
