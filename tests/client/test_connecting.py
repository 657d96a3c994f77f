"""First contact: addresses, dead servers, servers that are something else, and what is said then."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import headrace.aio
from headrace import errors
from headrace.client.addresses import Address, parse
from tests.client.proxy import HOLD, behind_proxy
from tests.support import serving


@contextlib.asynccontextmanager
async def server(answer: bytes | None) -> AsyncIterator[str]:
    """Something that listens: it answers everything with `answer`, or never."""

    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError):
            while await reader.read(1000):
                if answer is not None:
                    writer.write(answer)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


def dead() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_addresses_are_read_as_people_write_them() -> None:
    assert parse("a:1, b ,[::1]:3,[fe80::1]") == (("a", 1), ("b", 9092), ("::1", 3), ("fe80::1", 9092))
    assert parse(["a:1", "a:1"]) == (Address("a", 1),)
    assert str(Address("::1", 3)) == "[::1]:3" and str(Address("a", 1)) == "a:1"


@pytest.mark.parametrize(
    "text", ["", " , ", "a:", "a:x", ":5", "a:0", "a:70000", "::1:9092", "[::1", "[]:5", "[::1]5", "a:²"]
)
def test_what_is_not_an_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|IPv6"):
        parse(text)


async def test_nobody_there_is_said_at_once_with_every_address() -> None:
    first, second = dead(), dead()
    with pytest.raises(errors.ConnectionFailed, match="connection refused") as refused:
        await headrace.aio.connect([first, second])
    assert first in str(refused.value) and second in str(refused.value)


async def test_a_name_that_does_not_resolve_is_said() -> None:
    with pytest.raises(errors.ConnectionFailed, match=r"no-such-host\.invalid.*cannot be resolved"):
        await headrace.aio.connect("no-such-host.invalid:9092")


async def test_dead_and_silent_addresses_among_living_ones_cost_a_moment(headrace_address: str) -> None:
    async with server(None) as silent:
        begin = asyncio.get_running_loop().time()
        async with headrace.aio.connect([dead(), silent, dead(), headrace_address]) as client:
            assert (await client.admin.cluster()).nodes
        assert asyncio.get_running_loop().time() - begin < 5


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\4\0\0\0\x63", b"\0\0\0\4\0\0\0\1", b"\x7f\xff\xff\xff"]
)
async def test_a_server_that_is_something_else_is_recognised(answer: bytes) -> None:
    async with server(answer) as address:
        with pytest.raises(errors.ConnectionFailed, match=address):
            await headrace.aio.connect(address)


async def test_a_server_that_never_answers_is_given_up(headrace_address: str) -> None:
    async with server(None) as address:
        with pytest.raises(errors.ConnectionFailed, match=f"{address}.*did not answer ApiVersions"):
            await headrace.aio.connect(address, timeout=0.3)


async def test_who_waits_for_a_connection_hears_that_the_client_was_closed(tmp_path: Path) -> None:
    async with server(None) as silent, behind_proxy(tmp_path) as (proxy, _):
        client = await headrace.aio.connect([proxy.address, silent])
        proxy.rule = lambda key, number: HOLD
        proxy.drop_all()
        await asyncio.sleep(0.05)
        asking = asyncio.create_task(client.admin.topics())
        await asyncio.sleep(0.5)  # until both are tried
        await client.close()
        (outcome,) = await asyncio.gather(asking, return_exceptions=True)
        assert isinstance(outcome, errors.ClientClosed)


async def test_a_broker_at_an_ipv6_address_is_reached(tmp_path: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with serving(tmp_path, "--kafka", "[::1]:0") as broker:
        assert broker.address.startswith("[::1]:")
        async with headrace.aio.connect(broker.address) as client, client.producer() as producer:
            assert (await producer.send("t", b"x")).offset == 0
            assert (await client.admin.cluster()).nodes[0].address == broker.address


async def test_a_wrong_advertised_address_is_named_by_whoever_cannot_go_on(tmp_path: Path) -> None:
    nowhere = dead()
    with serving(tmp_path, "--kafka-advertised", nowhere) as broker:
        async with headrace.aio.connect(broker.address, timeout=1) as client:
            with pytest.raises(errors.ConnectionFailed, match=f"{nowhere}.*node 0 advertises"):
                await client.admin.create_topic("t")
            async with client.producer(delivery_timeout=1) as producer:
                with pytest.raises(errors.RequestTimedOut, match=f"{nowhere}.*node 0 advertises"):
                    await producer.send("t", b"x")
            async with client.consumer("t", start=0) as consumer:
                with pytest.raises(errors.ConnectionFailed, match=f"{nowhere}.*node 0 advertises"):
                    await consumer.take(timeout=20)


async def test_a_client_is_used_connected_and_where_it_was_made(headrace_address: str) -> None:
    client = headrace.aio.connect(headrace_address)
    with pytest.raises(errors.ClientClosed, match="not connected"):
        client.producer()
    async with client:
        assert await client.admin.topics() is not None

        def elsewhere() -> None:
            asyncio.run(asyncio.wait_for(client.admin.topics(), 10))

        with pytest.raises(errors.ClientClosed, match="another event loop"):
            await asyncio.to_thread(elsewhere)
    with pytest.raises(errors.ClientClosed, match="closed"):
        await client.admin.topics()
    with pytest.raises(TypeError, match="no such option: linger_ms; there are acks"):
        async with headrace.aio.connect(headrace_address) as other:
            other.producer(linger_ms=5)


async def test_a_topic_that_is_not_made_on_first_use_is_refused_in_seconds(tmp_path: Path) -> None:
    with serving(tmp_path, "--auto-create-topics", "false") as broker:
        async with headrace.aio.connect(broker.address) as client, client.producer() as producer:
            begin = asyncio.get_running_loop().time()
            with pytest.raises(errors.UnknownTopic, match="does not make topics on first use"):
                await producer.send("t", b"x")
            assert asyncio.get_running_loop().time() - begin < 10
            await client.admin.create_topic("t")
            assert (await producer.send("t", b"x")).offset == 0
