"""`headrace publish`: messages through any door, with the options and answers of the door's own tools."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from headrace.cli.exits import usage
from headrace.cli.options import current, note
from headrace.cli.output import json_text
from headrace.cli.parsing import pair
from headrace.cli.speakers import speaker
from headrace.cli.speaking.saying import Saying
from headrace.cli.speaking.wishes import DOORS, Publish, check

END = "/quit"

DoorOption = Annotated[str, typer.Option("--door", metavar="|".join(DOORS), help="which protocol to speak")]


def command(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="the topic's name")],
    messages: Annotated[
        list[str] | None, typer.Argument(metavar="MESSAGE", help="without any, lines of standard input are sent")
    ] = None,
    door: DoorOption = "lines",
    partition: Annotated[int | None, typer.Option(metavar="N", min=0, help="where to")] = None,
    key: Annotated[str | None, typer.Option(metavar="TEXT", help="of every message")] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--headers", "--header", metavar="K=V", help="header of every message")
    ] = None,
    properties: Annotated[
        str | None, typer.Option(metavar="JSON", help="of every message, as an object: binary")
    ] = None,
    is_json: Annotated[bool, typer.Option("--json", help="a message is JSON, not text")] = False,
    message_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="of the message; a repeated one is stored once")
    ] = None,
    client_id: Annotated[str | None, typer.Option(metavar="ID", help="who publishes: binary")] = None,
) -> None:
    """Publish messages through any door.

    It speaks the door's own protocol and prints what that protocol's own tools print; -o jsonl prints an object for
    each message instead. The address is that of the door: --server, or where the server says that it is. Lines
    of standard input end with the input, or with /quit.

    Examples:
      headrace publish chat 'Hello, distributed world!'
      headrace publish my_topic 'Another message' --door binary --partition 1
      headrace publish demo-topic --door http --key k1 --json --headers source=shop
      headrace publish sensors/hall '{"celsius": 21.5}' --door msgpack --json
    """
    given = {
        "--partition": partition,
        "--key": key,
        "--headers": headers,
        "--properties": properties,
        "--json": is_json,
        "--id": message_id,
        "--client-id": client_id,
    }
    check("publish", door, given)
    if message_id is not None and len(messages or ()) != 1:
        raise usage("an id is that of one message", "headrace publish TOPIC MESSAGE --id ID")
    named = dict(pair(text, "a header", "source=shop") for text in headers or ())
    wish = Publish(topic, partition, key, named, _properties(properties), is_json, message_id, client_id)
    with Saying(current()) as say, speaker(door) as at:
        at.publish(wish, messages or _typed(), say)


def _typed() -> Iterator[str]:
    if sys.stdin.isatty():
        note(f"Type messages, one on a line; Ctrl-D or {END} ends.")
    for line in sys.stdin:
        text = line.rstrip("\r\n")
        if text == END:
            return
        if text:
            yield text


def _properties(text: str | None) -> dict[str, str]:
    if text is None:
        return {}
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise usage(f"--properties is not JSON: {error}", """--properties '{"priority": "high"}'""") from None
    if not isinstance(found, dict):
        raise usage("--properties takes an object", """--properties '{"priority": "high"}'""")
    return {name: text if isinstance(text, str) else json_text(text) for name, text in found.items()}
