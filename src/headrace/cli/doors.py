"""Where a door of a server is, and who speaks its language.

The first of: `--server` (the door's own address), the variable that `serve` has for it (HEADRACE_LINES), for http
BROKER_API and BROKER_PEERS, what a node tells of its doors when a server is named otherwise (HEADRACE_SERVER, a
context), the door's usual port on this machine.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from headrace.cli import options
from headrace.cli.connecting import with_client
from headrace.cli.exits import usage
from headrace.cli.options import Options
from headrace.client.addresses import parse
from headrace.errors import HeadraceError
from headrace.node.settings.kinds import OFF
from headrace.node.settings.table import LISTEN

if TYPE_CHECKING:
    from headrace.aio import Client
    from headrace.cli.speaking.wishes import Speaker

ANY_HOST = ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)
SPEAKERS = {
    "kafka": "headrace.cli.speaking.kafka:KafkaSpeaker",
    "binary": "headrace.cli.speaking.binary:BinarySpeaker",
    "lines": "headrace.cli.speaking.lines:LinesSpeaker",
    "json": "headrace.cli.speaking.json:JsonSpeaker",
    "http": "headrace.cli.speaking.http:HttpSpeaker",
    "msgpack": "headrace.cli.speaking.msgpack:MsgpackSpeaker",
}


def speaker(door: str) -> Speaker:
    asked = options.current()
    places = split(place_of(door, asked), door)
    module, _, name = SPEAKERS[door].partition(":")
    return cast("Speaker", getattr(importlib.import_module(module), name)(places, asked.timeout_s))


def place_of(door: str, asked: Options) -> str:
    if options.is_given("server"):
        return asked.server
    given = os.environ.get(LISTEN[door].variable)
    if given is not None:
        if given == OFF:
            raise usage(f"{LISTEN[door].variable} says that there is no {door} door", "-s HOST:PORT names one")
        return given
    if door == "http" and (given := _brokers(os.environ)):
        return given
    if asked.server_from != "default":
        return asked.server if door == "kafka" else with_client(lambda client: door_of(client, door, asked), asked)
    return f"127.0.0.1:{usual_port(door)}"


def split(place: str, door: str) -> list[tuple[str, int]]:
    """Hosts and ports; without a port the door's usual one. Addresses of the http door may be URLs."""
    try:
        return [(host, port) for host, port in parse(_whole(text.strip(), door) for text in place.split(","))]
    except ValueError as error:
        raise usage(f"{place!r} is no address of a {door} door: {error}", f"-s 127.0.0.1:{usual_port(door)}") from None


def _whole(text: str, door: str) -> str:
    text = text.removeprefix("http://").rstrip("/") if door == "http" else text
    has_port = text.rpartition(":")[2].isdecimal() and (":" in text.rpartition(":")[0]) <= text.startswith("[")
    return text if not text or (":" in text and has_port) else f"{text}:{usual_port(door)}"


def _brokers(environment: Mapping[str, str]) -> str:
    """What clients of the HTTP protocol's own broker were told: the one to ask first, and its peers."""
    named = [environment.get(name, "") for name in ("BROKER_API", "BROKER_PEERS")]
    return ",".join(dict.fromkeys(part.strip() for text in named for part in text.split(",") if part.strip()))


def usual_port(door: str) -> int:
    return int(LISTEN[door].default.rpartition(":")[2])


async def door_of(client: Client, door: str, asked: Options) -> str:
    """Where the node says that it listens; else the usual port."""
    host = asked.servers[0].rpartition(":")[0] or asked.servers[0]
    node = (await client.admin.cluster()).nodes[0]
    with contextlib.suppress(HeadraceError):  # not every server tells its settings to everybody
        for setting in await client.admin.config("broker", str(node.id)):
            if setting.name == f"headrace.{door}.bound":
                at, _, port = (setting.value or "").rpartition(":")
                if port.isdecimal() and int(port):
                    return f"{host if at.strip('[]') in ANY_HOST else at}:{port}"
    return f"{host}:{usual_port(door)}"
