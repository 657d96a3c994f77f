"""The clients of `headrace.compat` for this protocol."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from headrace.compat import AsyncPubSubClient, PubSubClient
from headrace.compat.pubsub import Ext, Message, Raw
from headrace.errors import ClientClosed, ClientError, ConnectionFailed, RequestTimedOut
from headrace.testing.broker import Broker
from tests.doors_msgpack import kit

VALUES = [None, True, 0, -1, 1 << 63, -(1 << 63), 0.5, "text", b"\xff", [1, [2]], {"a": {"b": 1}}, {1: 2}, "é" * 300]


def test_every_value_comes_back_as_it_went(msgpack: str) -> None:
    with PubSubClient(msgpack) as client:
        client.subscribe("values/*", "other")
        for value in VALUES:
            client.publish("values/x", value)
            assert client.recv(timeout=20) == Message("values/x", value)
        client.publish("values/x", Ext(5, b"abc"))
        message = client.recv(timeout=20)
        assert message is not None
        assert (message.value.code, bytes(message.value.data)) == (5, b"abc")


def test_many_go_in_one_write_and_come_in_order(msgpack: str) -> None:
    with PubSubClient(msgpack) as client:
        client.subscribe("many")
        client.publish_all(("many", number) for number in range(10_000))
        assert [client.recv(timeout=20) for _ in range(10_000)] == [Message("many", n) for n in range(10_000)]
        client.unsubscribe("many")
        client.subscribe("end")
        client.publish_all([("many", 1), ("end", 2)])
        assert client.recv(timeout=20) == Message("end", 2)


def test_a_value_that_python_has_no_form_for_comes_as_its_bytes(msgpack: str) -> None:
    with PubSubClient(msgpack) as client, kit.Raw(msgpack) as other:
        client.subscribe("odd", "ready")
        client.publish("ready", 1)
        client.recv(timeout=20)
        other.send(kit.publish("odd", b"\x81\x81\x01\x02\x03"), kit.publish("odd", b"\x01"))
        assert client.recv(timeout=20) == Message("odd", Raw(b"\x81\x81\x01\x02\x03"))
        assert client.recv(timeout=20) == Message("odd", 1)


def test_what_msgpack_cannot_hold_is_refused_before_it_is_sent(msgpack: str) -> None:
    with PubSubClient(msgpack) as client:
        with pytest.raises(ClientError, match="cannot hold"):
            client.publish("x", 1 << 64)
        with pytest.raises(ClientError, match="cannot hold"):
            client.publish("x", object())
        client.subscribe("x")
        client.publish("x", 1)
        assert client.recv(timeout=20) == Message("x", 1)


def test_the_end_of_a_connection_is_none_and_silence_is_a_time_out() -> None:
    with Broker() as broker, PubSubClient(broker.addresses["msgpack"]) as client:
        client.subscribe("x")
        with pytest.raises(RequestTimedOut):
            client.recv(timeout=0.05)
        broker.stop()
        assert client.recv(timeout=20) is None
        assert list(client) == []


def test_a_broker_that_is_not_there_and_a_client_that_is_closed_say_so(msgpack: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(ConnectionFailed, match=nobody):
        PubSubClient(nobody)
    with pytest.raises(ConnectionFailed, match="HOST:PORT"):
        PubSubClient("nowhere")
    client = PubSubClient(msgpack)
    client.close()
    with pytest.raises(ClientClosed):
        client.publish("x", 1)
    with pytest.raises(ClientClosed):
        client.recv()


def test_one_thread_receives_while_others_publish(msgpack: str) -> None:
    with PubSubClient(msgpack) as client:
        client.subscribe("threads")

        def work(first: int) -> None:
            for number in range(first, first + 200):
                client.publish("threads", number)

        threads = [threading.Thread(target=work, args=(first,)) for first in range(0, 1000, 200)]
        for thread in threads:
            thread.start()
        found = [client.recv(timeout=20) for _ in range(1000)]
        for thread in threads:
            thread.join()
        assert sorted(message.value for message in found if message) == list(range(1000))


async def test_the_same_for_asyncio(msgpack: str) -> None:
    async with AsyncPubSubClient(msgpack) as client, AsyncPubSubClient(msgpack) as publisher:
        await client.subscribe("aio/?")
        await client.publish("aio/a", {"n": 1})
        assert await client.recv() == Message("aio/a", {"n": 1})
        await publisher.publish_all(("aio/b", number) for number in range(100))
        found = []
        async for message in client:
            found.append(message.value)
            if len(found) == 100:
                break
        assert found == list(range(100))
        await client.unsubscribe("aio/?")
    with pytest.raises(ClientClosed):
        await client.publish("x", 1)
    with pytest.raises(ConnectionFailed):
        await AsyncPubSubClient("127.0.0.1:1").connect()


async def test_a_waiting_recv_ends_with_the_broker() -> None:
    async with Broker() as broker, AsyncPubSubClient(broker.addresses["msgpack"]) as client:
        await client.subscribe("x")
        waiting = asyncio.ensure_future(client.recv())
        await asyncio.sleep(0.05)
        await broker.aio.stop()
        assert await waiting is None
