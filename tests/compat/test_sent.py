"""What our clients of the other protocols send, byte for byte, beside what the originals' clients were heard to send:
the order of keys, separators and escapes included. Each is heard by a server that only listens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace.compat import (
    AsyncLineClient,
    AsyncPubSubClient,
    Consumer,
    LineClient,
    Producer,
    PubSubClient,
    SyncConsumer,
    SyncProducer,
)
from tests.compat.recorder import Recorder

# json

PUBLISHED = b'{"status": "success", "message": "Message published to test_topic, partition 0"}'
CONSUMED = b'{"status": "success", "message": "Hello"}'
PUBLISH = b'{"type": "publish", "topic_name": "test_topic", "partition": 0, "payload": "Hello"}'
CONSUME = b'{"type": "consume", "topic_name": "test_topic", "partition": 0, "payload": null, "offset": 0}'


def heard_of(sent: bytes, reply: bytes, call: Callable[[str, int], object]) -> tuple[bytes, object]:
    with Recorder([reply], is_short=True) as server:
        answer = call(*server.place)
        return server.heard(len(sent)), answer


@pytest.mark.parametrize(
    ("payload", "sent"),
    [
        ("Hello", PUBLISH),
        ("Grüße 😀", PUBLISH.replace(b"Hello", rb"Gr\u00fc\u00dfe \ud83d\ude00")),
        ('a"\\\n', PUBLISH.replace(b"Hello", rb"a\"\\\n")),
        ({"b": [1, 2.5, None, True], "a": {}}, PUBLISH.replace(b'"Hello"', b'{"b": [1, 2.5, null, true], "a": {}}')),
        (None, PUBLISH.replace(b'"Hello"', b"null")),
        ("", PUBLISH.replace(b"Hello", b"")),
    ],
)
def test_a_json_producer_sends_what_the_original_sends(payload: Any, sent: bytes) -> None:
    heard, words = heard_of(
        sent, PUBLISHED, lambda host, port: asyncio.run(Producer(host, port).publish("test_topic", 0, payload))
    )
    assert heard == sent and words == "Message published to test_topic, partition 0"
    heard, _ = heard_of(sent, PUBLISHED, lambda host, port: SyncProducer(host, port).publish("test_topic", 0, payload))
    assert heard == sent


@pytest.mark.parametrize("offset", [0, 7, -1])
def test_a_json_consumer_sends_what_the_original_sends(offset: int) -> None:
    sent = CONSUME.replace(b'"offset": 0', b'"offset": %d' % offset)
    for call in (
        lambda host, port: asyncio.run(Consumer(host, port).consume("test_topic", 0, offset)),
        lambda host, port: SyncConsumer(host, port).consume("test_topic", 0, offset),
    ):
        assert heard_of(sent, CONSUMED, call) == (sent, "Hello")


# lines

SUB = bytes.fromhex("53554220636861740a")
SUB_GROUP = bytes.fromhex("53554220636861742067310a")
PUB = bytes.fromhex("50554220636861742048656c6c6f2c20646973747269627574656420776f726c64210a")
SUBSCRIBED = bytes.fromhex("4f4b207375627363726962656420636861740a")
JOINED = bytes.fromhex("4f4b2073756273637269626564206368617420696e2067726f75702067310a")
STORED = bytes.fromhex("4f4b207075626c69736865640a")
GREETING = b"OK connected\n"
LINES = SUB + SUB_GROUP + PUB + b"HISTORY chat 5\nPING\nQUIT\n"
REPLIES = [SUBSCRIBED, JOINED, STORED, b"OK history end\n", b"OK pong\n", b"OK bye\n"]


def test_a_line_client_sends_what_the_original_sends() -> None:
    with Recorder(REPLIES, greeting=GREETING) as server:
        with LineClient(*server.place) as client:
            assert client.subscribe("chat") == "subscribed chat"
            assert client.subscribe("chat", "g1") == "subscribed chat in group g1"
            assert client.publish("chat", "Hello, distributed world!")
            assert client.history("chat", 5) == []
            client.ping()
        assert server.heard(len(LINES)) == LINES


def test_an_async_line_client_sends_the_same() -> None:
    async def talk(host: str, port: int) -> None:
        async with AsyncLineClient(host, port) as client:
            assert await client.subscribe("chat") == "subscribed chat"
            await client.subscribe("chat", "g1")
            await client.publish("chat", "Hello, distributed world!")
            await client.history("chat", 5)
            await client.ping()

    with Recorder(REPLIES, greeting=GREETING) as server:
        asyncio.run(talk(*server.place))
        assert server.heard(len(LINES)) == LINES


# msgpack

COMMANDS = bytes.fromhex(
    "81a953756273637269626591a86d792d746f706963"  # Subscribe my-topic
    "81a75075626c6973689192a86d792d746f706963c3"  # Publish my-topic true
    "81a75075626c6973689192a86d792d746f70696381a3466f6fcb3fe0000000000000"  # Publish my-topic {"Foo": 0.5}
    "81ab556e73756273637269626591a164"  # Unsubscribe d
    "81a953756273637269626591b12173797374656d2f6d6574726963732f2a"  # Subscribe !system/metrics/*
)
DELIVERED = bytes.fromhex("92a86d792d746f70696381a3466f6fcb3fe0000000000000")


def test_a_pubsub_client_sends_what_the_original_sends() -> None:
    with Recorder([], greeting=DELIVERED) as server, PubSubClient(server.address) as client:
        client.subscribe("my-topic")
        client.publish("my-topic", True)
        client.publish("my-topic", {"Foo": 0.5})
        client.unsubscribe("d")
        client.subscribe("!system/metrics/*")
        assert server.heard(len(COMMANDS)) == COMMANDS
        assert client.recv(20) == ("my-topic", {"Foo": 0.5})


def test_an_async_pubsub_client_sends_the_same() -> None:
    async def talk(address: str) -> None:
        async with AsyncPubSubClient(address) as client:
            await client.subscribe("my-topic")
            await client.publish_all([("my-topic", True), ("my-topic", {"Foo": 0.5})])
            await client.unsubscribe("d")
            await client.subscribe("!system/metrics/*")

    with Recorder([]) as server:
        asyncio.run(talk(server.address))
        assert server.heard(len(COMMANDS)) == COMMANDS
