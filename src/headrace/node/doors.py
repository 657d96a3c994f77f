"""The doors of a node: which there are, how each is made, and what the node asks of every one of them.

A door on plain TCP is one row here, the place of its class; its settings are in `settings/doors.py`. It is imported
when it is to listen, so that a door that is off costs nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
from typing import TYPE_CHECKING, Protocol, cast

from headrace.doors.http.door import HttpDoor
from headrace.doors.kafka.door import KafkaDoor
from headrace.doors.places import Places
from headrace.errors import HeadraceError
from headrace.node.settings import Address

if TYPE_CHECKING:
    from headrace.doors.tcp.door import TcpDoor
    from headrace.node.node import Node

TCP: dict[str, str] = {
    "binary": "headrace.doors.binary.door:BinaryDoor",
    "lines": "headrace.doors.lines.door:LinesDoor",
    "json": "headrace.doors.json.door:JsonDoor",
    "msgpack": "headrace.doors.msgpack.door:MsgpackDoor",
}


class Door(Protocol):
    places: Places

    @property
    def is_listening(self) -> bool: ...

    async def bind(self, host: str, port: int) -> tuple[str, int]: ...

    async def serve(self) -> None: ...

    async def stop(self) -> None: ...


def kafka_door(node: Node, loop: asyncio.AbstractEventLoop) -> KafkaDoor:
    settings, advertised = node.settings, node.settings.kafka_advertised
    return KafkaDoor(
        node.broker,
        node.background,
        loop,
        settings.kafka_limits,
        node.chance,
        node.events.event,
        None if advertised is None else (advertised.host, advertised.port),
    )


def http_door(node: Node, loop: asyncio.AbstractEventLoop) -> HttpDoor:
    limits, monotonic = node.settings.http_limits, node.clock.monotonic
    return HttpDoor(node.broker, node.watch, node.background, loop, limits, monotonic)


def tcp_doors(node: Node, loop: asyncio.AbstractEventLoop) -> dict[str, TcpDoor]:
    """Those that are to listen."""
    made = {}
    for name, place in TCP.items():
        if getattr(node.settings, name) is not None:
            module, _, of_door = place.partition(":")
            new = getattr(importlib.import_module(module), of_door)
            limits = node.settings.door_limits[name]
            made[name] = cast("TcpDoor", new(node.broker, loop, limits, node.events.event))
    return made


async def bind(name: str, door: Door, at: Address) -> Address:
    """Its place, before anybody is let in."""
    try:
        host, port = await door.bind(at.host, at.port)
    except (OSError, UnicodeError) as error:
        raise cannot_listen(name, at, error) from error
    return Address(host, port)


async def serve(name: str, door: Door, at: Address) -> None:
    try:
        await door.serve()
    except OSError as error:  # somebody else bound the same port in the same moment, and was quicker
        raise cannot_listen(name, at, error) from error


def cannot_listen(door: str, at: Address, error: OSError | UnicodeError) -> HeadraceError:
    if isinstance(error, UnicodeError):
        why = f"{at.host!r} can be no host's name"
    elif isinstance(error, socket.gaierror):
        why = f"{at.host!r} is not known ({error.strerror})"
    else:
        why = os.strerror(error.errno) if error.errno else str(error)
    return HeadraceError(
        f"cannot listen on {at} for {door}: {why}; "
        f"--{door} HOST:PORT moves it (port 0: any free one), --{door} off does without it"
    )
