"""Producer, Consumer and their sync twins against a real door."""

from __future__ import annotations

import socket

import pytest

from headrace.compat import Consumer, Producer, SyncConsumer, SyncProducer
from headrace.compat.json_values import JsonRefused, NoMessage
from headrace.errors import ConnectionFailed, RequestTimedOut


def at(door: str) -> tuple[str, int]:
    host, _, port = door.rpartition(":")
    return host, int(port)


async def test_a_program_publishes_and_consumes_as_it_did(door: str) -> None:
    producer, consumer = Producer(*at(door)), Consumer(*at(door))
    assert await producer.publish("words", 0, "Hello") == "Message published to words, partition 0"
    assert await consumer.consume("words", 0) == "Hello"
    assert await producer.publish("words", 0, {"a": [None, 1.5]}, acks="all")
    assert await consumer.consume("words", 0, offset=-1) == {"a": [None, 1.5]}
    with pytest.raises(NoMessage):
        await consumer.consume("words", 0, offset=2)
    with pytest.raises(JsonRefused, match="create_topic"):
        await producer.publish("words", 99, "x")


async def test_many_go_over_one_connection(door: str) -> None:
    producer, consumer = Producer(*at(door)), Consumer(*at(door))
    assert await producer.create_topic("numbers", 2) == "Topic numbers created with 2 partitions"
    assert await producer.publish_all("numbers", 1, range(1200), acks=1) == 1200
    assert [message async for message in consumer.messages("numbers", 1)] == list(range(1200))
    assert [message async for message in consumer.messages("numbers", 1, 1190)] == list(range(1190, 1200))
    assert [message async for message in consumer.messages("numbers", 0)] == []


def test_all_of_it_goes_without_await(door: str) -> None:
    producer, consumer = SyncProducer(*at(door)), SyncConsumer(*at(door))
    producer.create_topic("plain", 1)
    assert producer.publish("plain", 0, None) == "Message published to plain, partition 0"
    assert producer.publish_all("plain", 0, ["a", False, ""]) == 3
    assert consumer.consume("plain", 0) is None
    assert list(consumer.messages("plain")) == [None, "a", False, ""]
    with pytest.raises(JsonRefused):
        producer.create_topic("plain")


async def test_a_client_without_a_server_says_where_it_looked() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = free.getsockname()
    for ask in (SyncConsumer(*place).consume, SyncProducer(*place).publish_all):
        with pytest.raises(ConnectionFailed, match=str(place[1])):
            ask("t", 0, [])  # type: ignore[arg-type]
    with pytest.raises(ConnectionFailed, match=str(place[1])):
        await Consumer(*place).consume("t", 0)
    with pytest.raises(ConnectionFailed, match=str(place[1])):
        await Producer(*place).publish_all("t", 0, [1])


async def test_a_server_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        place = mute.getsockname()
        with pytest.raises(RequestTimedOut):
            SyncConsumer(*place, timeout=0.1).consume("t", 0)
        with pytest.raises(RequestTimedOut):
            await Producer(*place, timeout=0.1).publish("t", 0, 1)
