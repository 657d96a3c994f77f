"""How connections of the Kafka door end, by cause."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.doors_http.running import Running, running, until

HEADER = struct.Struct(">ihhih")


async def connect(web: Running) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = web.node.addresses["kafka"]
    return await asyncio.open_connection(address.host, address.port)


def limit(web: Running, **limits: Any) -> None:
    web.node.kafka.limits = msgspec.structs.replace(web.node.kafka.limits, **limits)


def causes(web: Running) -> dict[str, int]:
    return web.node.kafka.metrics.closed


async def test_a_client_that_leaves(web: Running) -> None:
    _, writer = await connect(web)
    await until(lambda: web.node.kafka.metrics.opened == 1)
    writer.close()
    await until(lambda: causes(web) == {"client": 1})
    assert ("kafka.opened", {"peer": "127.0.0.1"}) in web.events


async def test_a_request_that_does_not_parse(web: Running) -> None:
    _, writer = await connect(web)
    writer.write(HEADER.pack(10, 0x7FFF, 0, 1, -1))
    await until(lambda: causes(web) == {"malformed": 1})
    writer.close()


async def test_a_batch_that_was_refused_and_nobody_waits_to_be_told(web: Running) -> None:
    await web.produce("nowhere", [b"x"], acks=0)
    await until(lambda: causes(web) == {"refused": 1})
    assert sum(web.node.kafka.metrics.errors.values()) == 1


async def test_too_many(web: Running) -> None:
    limit(web, max_connections=1)
    first, second = await connect(web), await connect(web)
    await until(lambda: causes(web) == {"full": 1})
    assert (web.node.kafka.metrics.opened, web.node.kafka.metrics.refused) == (2, 1)
    for _, writer in (first, second):
        writer.close()


@pytest.mark.parametrize(("sent", "cause"), [(b"", "idle"), (b"\x00\x00\x00\x20begun", "stalled")])
async def test_a_client_that_does_not_go_on(web: Running, sent: bytes, cause: str) -> None:
    limit(web, idle_ms=100, stall_ms=100)
    _, writer = await connect(web)
    writer.write(sent)
    await until(lambda: causes(web) == {cause: 1})
    writer.close()


async def test_the_end_of_the_node(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        _, writer = await connect(web)
        await until(lambda: web.node.kafka.metrics.opened == 1)
    await until(lambda: causes(web) == {"stopping": 1})
    writer.close()


async def test_a_fault_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as web:
        await web.create("t")
        topic = web.node.broker.topic("t")
        assert topic is not None

        async def broken() -> None:
            raise RuntimeError("a fault")

        monkeypatch.setattr(type(topic.partitions[0]), "opened", lambda _: broken())
        with pytest.raises(asyncio.IncompleteReadError):
            await web.produce("t", [b"x"])
        await until(lambda: causes(web) == {"fault": 1})
    assert [str(fault["exception"]) for fault in web.faults] == ["a fault"]
