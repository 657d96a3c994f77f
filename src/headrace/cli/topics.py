"""Topics as commands name them: completed from the server, matched by pattern, and missed with a suggestion.

A name that Kafka's protocol cannot spell is shown as it is, not as that protocol has it (`headrace-b32-…`): the server
knows it by both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from headrace.cli.connecting import with_client
from headrace.cli.exits import not_found, usage
from headrace.cli.options import current
from headrace.doors.kafka.names import from_kafka
from headrace.errors import HeadraceError, UnknownTopic

if TYPE_CHECKING:
    from headrace.aio import Client
    from headrace.client.values import Topic

COMPLETION_LIMIT_S = 1.0  # a shell that waits for a dead server is worse than one that knows no names


def complete(incomplete: str) -> list[str]:
    """The names of topics, for a shell; nothing where no server answers."""
    try:
        asked = msgspec.structs.replace(current(), timeout_s=COMPLETION_LIMIT_S, verbosity=-1)
        names = with_client(_names, asked)
    except (HeadraceError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]


async def every(client: Client, *, internal: bool = False) -> list[Topic]:
    """All topics, in the order of their names."""
    named = msgspec.structs.replace
    found = [named(topic, name=from_kafka(topic.name)) for topic in await client.admin.topics(internal=internal)]
    return sorted(found, key=lambda topic: topic.name)


async def _names(client: Client) -> list[str]:
    return [topic.name for topic in await every(client)]


TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="the topic's name", autocompletion=complete)]
TopicNames = Annotated[list[str], typer.Argument(metavar="TOPIC", help="names of topics", autocompletion=complete)]
ByPattern = Annotated[
    bool, typer.Option("--regex", help="each TOPIC is a regular expression that a whole name matches")
]


async def one(client: Client, name: str) -> Topic:
    """The topic; when there is none, the error names the nearest."""
    try:
        return await client.admin.topic(name)
    except UnknownTopic:
        near = get_close_matches(name, await _names(client), 1)
    raise missing(name, near)


async def nearest(client: Client, name: str) -> str | None:
    """None: the topic is there. Otherwise words for a note: the nearest name, or nothing."""
    known = [topic.name for topic in await every(client, internal=True)]
    if from_kafka(name) in known:
        return None
    near = get_close_matches(name, known, 1)
    return f" (did you mean {near[0]}?)" if near else ""


async def several(client: Client, names: Sequence[str], *, regex: bool = False, internal: bool = False) -> list[Topic]:
    """Each name's topic, or all that match one of the patterns; in the order of the names."""
    patterns = [_pattern(name) for name in names] if regex else []
    known = {topic.name: topic for topic in await every(client, internal=internal or not regex)}
    if regex:
        found = [topic for topic in known.values() if any(pattern.fullmatch(topic.name) for pattern in patterns)]
        if not found:
            raise not_found(f"no topic matches {' or '.join(names)}", "`headrace topic list` shows what there is")
        return found
    for name in names:
        if from_kafka(name) not in known:
            raise missing(name, get_close_matches(name, known, 1))
    return [known[name] for name in dict.fromkeys(map(from_kafka, names))]


def missing(name: str, near: Sequence[str]) -> HeadraceError:
    words = f"; did you mean {near[0]}?" if near else ""
    return not_found(f"there is no topic {name!r}{words}", "`headrace topic list` shows what there is")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise usage(f"{text!r} is not a regular expression: {error}", "--regex 'orders-.*'") from None
