"""`web`: a node with an HTTP door, which must not have found a fault in itself. `scraped`: what a node that has done a
little of everything tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.broker.groups.positions import Position
from tests.doors_http.running import Running, running, until
from tests.support import Wire


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as found:
        yield found
    assert not found.faults


@pytest.fixture
async def scraped(web: Running) -> str:
    await do_everything(web)
    await _fall_behind(web)
    await _speak_lines(str(web.node.addresses["lines"]))
    await web.node.broker.queues.open("lines", "t", "workers")
    return await web.scrape()


async def do_everything(web: Running) -> None:
    """Every kind of thing that is counted has happened once."""
    await web.create("t", partitions=3, configs={"segment.bytes": "1048576"})
    await web.create("ring", configs={"headrace.storage": "memory"})
    for acks in (0, 1, -1):
        await web.produce("t", [b"x" * 100] * 10, acks=acks, requests=5)
    await web.produce("ring", [b"x"])
    await web.produce("nowhere", [b"x"])
    await asyncio.to_thread(_read, str(web.node.addresses["kafka"]))
    await web.web.get("/healthz")
    await web.web.get("/nowhere")
    web.node._tick()


async def _speak_lines(address: str) -> None:
    """A door on plain TCP: one who publishes to himself, is refused something, and leaves."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"SUB t\nPUB t hello\nNONSENSE\nQUIT\n")
    await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await writer.wait_closed()


async def _fall_behind(web: Running) -> None:
    """A group that has read some of a topic."""
    groups, told = web.node.broker.groups, asyncio.Event()
    groups.commit("behind", "", None, -1, [("t", 0, Position(3))], lambda error: told.set())
    await told.wait()
    groups.lag.look()
    await until(lambda: groups.lag.lags["behind", "t", 0].since_ms is not None)


def _read(address: str) -> None:
    with Wire(address) as wire:
        assert wire.fetch("t", 0).error == 0
        wire.fetch("t", 10_000)
