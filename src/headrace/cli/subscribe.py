"""`headrace subscribe`: messages from any door, with the options and words of the door's own tools."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import options
from headrace.cli.exits import usage
from headrace.cli.publish import DoorOption
from headrace.cli.speakers import speaker
from headrace.cli.speaking.saying import Saying
from headrace.cli.speaking.wishes import TAKES, Subscribe, check

POLL_S = 15.0


Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="the topic's name; msgpack: a pattern")]
Count = Annotated[int | None, typer.Option(metavar="N", min=1, help="end after so many messages")]
Partition = Annotated[int | None, typer.Option(metavar="N", min=0, help="of which partition")]
Offset = Annotated[
    int | None, typer.Option("--offset", "--from-offset", metavar="N", help="begin there, and not with news")
]
Group = Annotated[str | None, typer.Option(metavar="NAME", help="each message to one of the group: lines, binary")]
Ack = Annotated[bool, typer.Option("--ack", help="a message is done when shown, not when sent: lines, binary")]
History = Annotated[int | None, typer.Option(metavar="N", help="first the last N messages: lines")]
GroupId = Annotated[str | None, typer.Option(metavar="NAME", help="the group whose position counts: http")]
ConsumerId = Annotated[str | None, typer.Option(metavar="NAME", help="who reads: http")]
MaxRecords = Annotated[int | None, typer.Option(metavar="N", min=1, help="of one poll: http")]
NoCommit = Annotated[bool, typer.Option("--no-commit", help="leave the position as it is: http")]
ShowIdle = Annotated[bool, typer.Option("--show-idle", help="say when a poll brought nothing: http")]
PreferReplica = Annotated[int | None, typer.Option(metavar="ID", help="node to read from: http")]
ClientId = Annotated[str | None, typer.Option(metavar="ID", help="who subscribes: binary")]


def command(
    topic: Topic,
    door: DoorOption = "lines",
    count: Count = None,
    partition: Partition = None,
    offset: Offset = None,
    group: Group = None,
    ack: Ack = False,
    history: History = None,
    group_id: GroupId = None,
    consumer_id: ConsumerId = None,
    max_records: MaxRecords = None,
    no_commit: NoCommit = False,
    show_idle: ShowIdle = False,
    prefer_replica: PreferReplica = None,
    client_id: ClientId = None,
) -> None:
    """Print messages as they come through any door, until Ctrl-C.

    It speaks the door's own protocol and prints what that protocol's own tools print; -o jsonl prints an object for
    each message instead. With http, --timeout is how long a poll waits for news.

    The members of a group share its messages, those of the protocol's own tools included. What was sent to a member and
    not shown is lost with it, unless all of them acknowledge (--ack); a group is of one kind at a time.

    Examples:
      headrace subscribe chat --history 5
      headrace subscribe chat --group processors
      headrace subscribe chat --group careful --ack
      headrace subscribe my_topic --door binary --partition 0 --offset 0
      headrace subscribe demo-topic --door http --group-id g1 --consumer-id c1
      headrace subscribe 'sensors/*' --door msgpack -o jsonl
    """
    asked = options.current()
    wish = Subscribe(
        topic=topic, partition=partition, offset=offset, count=count, group=group, ack=ack, history=history,
        group_id=group_id, consumer_id=consumer_id, max_records=max_records, no_commit=no_commit, show_idle=show_idle,
        prefer_replica=prefer_replica, client_id=client_id,
        wait_s=asked.timeout_s if options.is_given("timeout") else POLL_S,
    )  # fmt: skip
    check("subscribe", door, {option: getattr(wish, _field(option)) for option in TAKES["subscribe"]})
    if ack and group is None:
        raise usage("--ack is for members of a group", "--group NAME --ack")
    if group_id is not None and consumer_id is None:
        raise usage("--group-id needs --consumer-id: one member of a group reads at a time", "--consumer-id c1")
    with Saying(asked) as say, speaker(door) as at:
        at.subscribe(wish, say)


def _field(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")
