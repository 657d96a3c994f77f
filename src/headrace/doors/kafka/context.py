"""What a handler of the Kafka door knows about the request it handles, besides its body."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


class Context(NamedTuple):
    broker: Broker
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    peer_host: str
    listener: tuple[str, int]
    """Where the client reached us: what we advertise as this node's address."""
