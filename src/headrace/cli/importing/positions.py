"""Positions of consumers and exclusive groups, committed through the http door, as their owners would: what is stored
there is the last offset that was processed. Committed again it is the same, so an import that is repeated harms
nothing."""

from __future__ import annotations

import http.client

import msgspec

from headrace.cli.exits import Refusal
from headrace.cli.importing.sources import Position
from headrace.errors import ConnectionFailed

OWN_CONSUMER = "headrace-import"  # a group's position needs somebody who commits it
NOBODY = "_anon"  # whose position it is that neither group nor consumer named


class Wished(msgspec.Struct, frozen=True, omit_defaults=True):
    topic: str
    offset: int
    consumer_id: str | None = None
    group_id: str | None = None


def commit(address: str, topic: str, position: Position, timeout_s: float) -> None:
    """`topic`: its name in the server."""
    consumer = None if position.consumer == NOBODY else position.consumer or OWN_CONSUMER
    wished = Wished(topic, position.records - 1, consumer, position.group)
    connection = http.client.HTTPConnection(address, timeout=timeout_s)
    try:
        connection.request("POST", "/commit", msgspec.json.encode(wished), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        words = answer.read(1 << 16).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ConnectionFailed(f"no HTTP answer from {address}: {why}") from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        who = f"group {position.group}" if position.group else f"consumer {position.consumer}"
        raise Refusal(f"the position of {who} in topic {topic!r} was refused: {answer.status} {words}")
