"""A command's connection to its server: one loop, one client, the options' address and time limit."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from headrace.cli.exits import usage
from headrace.cli.options import Options, current, detail
from headrace.client.addresses import parse

if TYPE_CHECKING:
    from headrace.aio import Client

R = TypeVar("R")
CLIENT_ID = "headrace-cli"
NEW_OBJECTS = (
    100_000  # before the collector looks: records under way are no garbage, and looking cost a third of the time
)


def with_client(work: Callable[[Client], Awaitable[R]], options: Options | None = None) -> R:
    """Runs `work` with a client of the server that the options name; Ctrl-C cancels it, and it tidies up."""
    asked = options or current()
    check_address(asked.server, f"{asked.server_from} names no server")

    async def whole() -> R:
        from headrace import aio

        detail(f"asking {asked.server} ({asked.server_from})")
        async with aio.connect(asked.servers, client_id=CLIENT_ID, timeout=asked.timeout_s) as client:
            return await work(client)

    before = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS)
    try:
        return asyncio.run(whole())
    finally:
        gc.set_threshold(*before)


def check_address(text: str, what: str) -> None:
    try:
        parse(text)
    except ValueError as error:
        raise usage(f"{what}: {error}", "-s HOST:PORT, as in 127.0.0.1:9092 or [::1]:9092") from None
