"""Where a door of a server is.

The first of: `--server` (the door's own address), the variable that `serve` has for it (HEADRACE_LINES), for http
BROKER_API and BROKER_PEERS, what the server tells of its doors (HEADRACE_SERVER, a context, 127.0.0.1:9092), the door's
usual port. A door that the server says is closed is an error: another server may listen at its usual port. That port is
taken only where nothing names a server and none answers at 127.0.0.1:9092, or where the server does not tell of doors.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from headrace.cli import options
from headrace.cli.connecting import with_client
from headrace.cli.exits import NOT_FOUND, Refusal, usage
from headrace.cli.options import Options
from headrace.client.addresses import parse
from headrace.errors import ClientError, HeadraceError
from headrace.node.settings.kinds import OFF
from headrace.node.settings.table import LISTEN

if TYPE_CHECKING:
    from headrace.aio import Client

NOBODY_NAMED_S = 2.0  # for the server that nothing names: it is on this machine, or not there
BOUND = ".bound"  # of the settings that say where a node's doors are
ANY_HOST = ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)


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
    if door == "kafka":
        return asked.server
    if asked.server_from != "default":
        return with_client(lambda client: door_of(client, door, asked), asked)
    hasty = msgspec.structs.replace(asked, timeout_s=min(asked.timeout_s, NOBODY_NAMED_S))
    try:
        return with_client(lambda client: door_of(client, door, hasty), hasty)
    except ClientError:
        place = f"127.0.0.1:{usual_port(door)}"
        options.detail(f"no server tells of doors at {asked.server}: taking {place}, the usual port of the {door} door")
        return place


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
    """Where the server says that the door listens, `NoDoor` if it has none; the usual port where it does not tell."""
    there = await told_place(client, door, asked)
    if there is None:
        there = f"{_host(asked)}:{usual_port(door)}"
        options.note(f"{asked.server} does not tell where its doors are: taking {there}, the usual port of {door}.")
    return there


async def told_place(client: Client, door: str, asked: Options) -> str | None:
    """None: the server does not tell. `NoDoor` if it tells of doors, and not of this one."""
    told = await _told(client)
    if told is None:
        return None
    if door not in told:
        raise NoDoor(asked.server, door, told)
    at, _, port = told[door].rpartition(":")
    return f"{_host(asked) if at.strip('[]') in ANY_HOST else at}:{port}"


def _host(asked: Options) -> str:
    return asked.servers[0].rpartition(":")[0] or asked.servers[0]


async def _told(client: Client) -> dict[str, str] | None:
    """The doors that are open, and where; None: not every server tells, and not to everybody."""
    node = (await client.admin.cluster()).nodes[0]
    try:
        settings = await client.admin.config("broker", str(node.id))
    except HeadraceError:
        return None
    bound = {setting.name: setting.value or "" for setting in settings if setting.name.endswith(BOUND)}
    return {name.removeprefix("headrace.").removesuffix(BOUND): at for name, at in bound.items()} or None


class NoDoor(Refusal):
    """The server is there and has no such door. What is at the door's usual port is then somebody else's."""

    def __init__(self, server: str, door: str, others: Iterable[str]) -> None:
        cause = f"{server} has no {door} door: it was started with --{door} off"
        super().__init__(
            cause, f"start it with --{door} HOST:PORT; its open doors are {', '.join(others)}", code=NOT_FOUND
        )
