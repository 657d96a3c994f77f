"""`headrace bench fanout`: clients of the msgpack door that publish to the topics a to g in turn and take what they
subscribed to, as that protocol's own load test does.

Every client is a connection of its own. What is counted is what the server took and gave: commands that left this
process, and deliveries that came, each read as the message that it is.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Annotated, cast

import msgspec
import typer

from headrace.cli.doors import place_of, split
from headrace.cli.exits import usage
from headrace.cli.options import current
from headrace.cli.output import Column, show_one
from headrace.cli.parsing import duration_ms
from headrace.errors import ConnectionFailed
from headrace.wire.msgpack.deliveries import DeliveryReader

TOPICS = "abcdefg"
MAX_CLIENTS = 5000  # connections from one process: beyond it, what is measured is this process
MAX_DELIVERY_BYTES = 16 << 20
SEND_BYTES = 32 << 10  # of a connection that the kernel holds: what waits there is not what the server took
ROUNDS_AT_ONCE = 100  # of all topics, in one write
PUBLISHES = [msgspec.msgpack.encode({"Publish": [[topic, True]]}) for topic in TOPICS]
COLUMNS = (
    Column("clients"),
    Column("subscriptions"),
    Column("seconds", show=lambda value: f"{value:.1f}"),
    Column("commands", show=lambda value: f"{value:,}"),
    Column("commands_per_second", show=lambda value: f"{value:,.0f}"),
    Column("messages_received", show=lambda value: f"{value:,}"),
    Column("messages_per_second", show=lambda value: f"{value:,.0f}"),
)


class Fanout(msgspec.Struct, frozen=True):
    clients: int
    subscriptions: int
    seconds: float
    commands: int
    commands_per_second: float
    messages_received: int
    messages_per_second: float


def fanout(
    number: Annotated[int, typer.Option("-n", "--number", metavar="N", min=1, help="how many clients")] = 30,
    interval: Annotated[
        float | None,
        typer.Option("-i", "--interval", metavar="SECONDS", help="between two of a client; 0: as fast as it goes"),
    ] = None,
    subscribe: Annotated[
        list[str] | None, typer.Option("--subscribe", metavar="PATTERN", help="what every client subscribes to")
    ] = None,
    address: Annotated[
        str | None, typer.Option("-a", "--address", metavar="HOST:PORT", help="of the msgpack door")
    ] = None,
    duration: Annotated[str, typer.Option(metavar="TIME", help="how long")] = "5s",
) -> None:
    """Clients that publish through the msgpack door and take what they subscribed to.

    Each publishes to the topics a, b, c, d, e, f and g in turn. With 30 clients that subscribe to a, every seventh
    message is delivered 30 times.

    Examples:
      headrace bench fanout --number 30 --interval 0.01 --subscribe a
      headrace bench fanout -n 30 --duration 20s -o json
    """
    asked = current()
    seconds = duration_ms(duration) / 1000
    if number > MAX_CLIENTS or seconds <= 0 or (interval is not None and interval < 0):
        raise usage(f"at most {MAX_CLIENTS} clients, for a time, at an interval", "--number 30 --duration 5s")
    host, port = split(address or place_of("msgpack", asked), "msgpack")[0]
    patterns = subscribe or []
    show_one(asyncio.run(_measured(host, port, number, interval or 0.0, patterns, seconds)), COLUMNS, asked)


async def _measured(
    host: str, port: int, number: int, interval_s: float, patterns: Sequence[str], seconds: float
) -> Fanout:
    loop = asyncio.get_running_loop()
    clients: list[Client] = []
    try:
        for _ in range(number):
            _, client = await loop.create_connection(lambda: Client(patterns), host, port)
            clients.append(client)
    except OSError as error:
        raise ConnectionFailed(f"cannot connect to {host}:{port}: {error}; is the msgpack door there?") from error
    began = loop.time()
    for place, client in enumerate(clients):
        client.begin(interval_s, interval_s * place / number)  # not all at the same moment
    await asyncio.sleep(seconds)
    took = loop.time() - began
    lost = [client for client in clients if client.is_lost]
    commands, received = sum(client.sent() for client in clients), sum(client.received for client in clients)
    for client in clients:
        client.end()
    if lost:
        raise ConnectionFailed(f"the server closed {len(lost)} of {number} connections")
    rates = commands / took, received / took
    return Fanout(number, number * len(patterns), took, commands, rates[0], received, rates[1])


class Client(asyncio.Protocol):
    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._reader = DeliveryReader(MAX_DELIVERY_BYTES)
        self._interval_s = 0.0
        self._next = 0
        self._written = 0
        self._is_paused = self._is_over = False
        self.received = 0
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        link: socket.socket = transport.get_extra_info("socket")
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        commands = [msgspec.msgpack.encode({"Subscribe": [pattern]}) for pattern in self._patterns]
        if commands:
            self._transport.write(b"".join(commands))
        self._written += len(commands)

    def begin(self, interval_s: float, after_s: float) -> None:
        self._interval_s = interval_s
        asyncio.get_running_loop().call_later(after_s, self._one if interval_s else self._many)

    def sent(self) -> int:
        """Commands that left: what waits here was not sent."""
        return self._written - self._transport.get_write_buffer_size() // len(PUBLISHES[0])

    def end(self) -> None:
        self._is_over = True
        self._transport.abort()

    def _one(self) -> None:
        if not self._is_over:
            self._transport.write(PUBLISHES[self._next % len(PUBLISHES)])
            self._next += 1
            self._written += 1
            asyncio.get_running_loop().call_later(self._interval_s, self._one)

    def _many(self) -> None:
        if not (self._is_over or self._is_paused):
            self._transport.write(b"".join(PUBLISHES) * ROUNDS_AT_ONCE)
            self._written += len(PUBLISHES) * ROUNDS_AT_ONCE
            asyncio.get_running_loop().call_soon(self._many)

    def data_received(self, data: bytes) -> None:
        self.received += len(self._reader.receive(data))

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        if not self._interval_s:
            self._many()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = not self._is_over
        self._is_over = True
