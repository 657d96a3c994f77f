"""Who speaks a door's language, and what is said when the address is that of a Kafka door instead.

A Kafka door closes the connection on most other protocols, and takes the first bytes of the rest for a request that is
yet to come whole: neither says what is wrong. So a port that did not answer as the door does is asked, once, what it
speaks of Kafka's protocol. A port that answers as it should is never asked: its server may be anybody's, and take the
question for data.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import msgspec

from headrace.cli import options
from headrace.cli.connecting import CLIENT_ID, with_client
from headrace.cli.doors import place_of, split, told_place
from headrace.cli.exits import usage
from headrace.client.addresses import Address
from headrace.errors import ClientError, ConnectionFailed, RequestTimedOut

if TYPE_CHECKING:
    from headrace.cli.speaking.wishes import Speaker

SILENCE_S = 2.0  # after which a door that says something at once is taken for another one
ASK_S = 1.0  # for an answer of Kafka's protocol
SPEAKERS = {
    "kafka": "headrace.cli.speaking.kafka:KafkaSpeaker",
    "binary": "headrace.cli.speaking.binary:BinarySpeaker",
    "lines": "headrace.cli.speaking.lines:LinesSpeaker",
    "json": "headrace.cli.speaking.json:JsonSpeaker",
    "http": "headrace.cli.speaking.http:HttpSpeaker",
    "msgpack": "headrace.cli.speaking.msgpack:MsgpackSpeaker",
}


@contextmanager
def speaker(door: str, address: str | None = None) -> Iterator[Speaker]:
    """At the address, or where the door is (`doors`)."""
    asked = options.current()
    places = split(address or place_of(door, asked), door)
    module, _, name = SPEAKERS[door].partition(":")
    try:
        yield cast("Speaker", getattr(importlib.import_module(module), name)(places, asked.timeout_s))
    except (ConnectionFailed, RequestTimedOut):
        if door != "kafka":
            refuse_kafka(door, places)
        raise


def refuse_kafka(door: str, places: Sequence[tuple[str, int]]) -> None:
    """Raises when one of the places, which did not answer as the door does, is a Kafka door."""
    for place in places:
        address = Address(*place)
        if asyncio.run(_is_kafka(address)):
            there = _place_of(door, address)
            own = f"-s {there}, its {door} door; " if there is not None else ""
            raise usage(
                f"{address} is a Kafka door, and no {door} door",
                f"{own}publish, subscribe and history speak to this one with --door kafka",
            )


async def _is_kafka(address: Address) -> bool:
    from headrace.client.connection import Connection

    try:
        (await Connection.open(address, CLIENT_ID, ASK_S)).close()
    except ClientError:
        return False
    return True


def _place_of(door: str, address: Address) -> str | None:
    """None: it does not tell, or not in time. `NoDoor` when it has none."""
    asked = msgspec.structs.replace(options.current(), server=str(address), timeout_s=ASK_S)
    try:
        return with_client(lambda client: told_place(client, door, asked), asked)
    except ClientError:
        return None
