"""LineClient and AsyncLineClient against a real door."""

from __future__ import annotations

import asyncio
import re
import socket
import threading

import pytest

from headrace.compat import AsyncLineClient, LineClient
from headrace.compat.line_values import LineRefused
from headrace.errors import ClientClosed, ConnectionFailed, RequestTimedOut
from headrace.testing.broker import Broker
from headrace.wire.lines.messages import unescape


def at(lines: str) -> tuple[str, int]:
    host, _, port = lines.rpartition(":")
    return host, int(port)


def test_a_program_publishes_subscribes_and_reads_history(lines: str) -> None:
    with LineClient(*at(lines)) as client, LineClient(*at(lines)) as other:
        client.ping()
        client.subscribe("talk")
        assert other.publish("talk", "Hello, world!")
        message = next(iter(client))
        assert (message.topic, message.offset, message.text) == ("talk", 1, "Hello, world!")
        assert re.fullmatch(r"msg_\d{13}_[0-9a-f]{8}", message.id)
        assert client.publish("talk", "mine", "my-id")
        assert client.history("talk", 5) == [message, *client.range("talk", 2, 2)]
        assert [one.id for one in client.since("talk", message.time, 2)] == [message.id, "my-id"]
        assert client.history("talk", -1)[0].id == "my-id"
        assert client.history("nothing") == []
        mine = client.receive(5)
        assert mine is not None and mine.text == "mine"
        assert client.receive(0.05) is None


def test_many_are_published_without_waiting_for_each(lines: str) -> None:
    with LineClient(*at(lines)) as client:
        assert client.publish_all("bulk", (f"number {number}" for number in range(3000))) == 3000
        found = client.history("bulk", 0)
        assert [one.text for one in found] == [f"number {number}" for number in range(3000)]


def test_members_of_a_group_acknowledge(lines: str) -> None:
    with LineClient(*at(lines)) as client:
        client.subscribe("jobs", "g", acknowledge=True)
        client.publish("jobs", "one")
        job = client.receive(5)
        assert job is not None
        client.acknowledge(job)
        with pytest.raises(LineRefused, match="no message"):
            client.acknowledge(job.id)
        with pytest.raises(LineRefused, match="only the members"):
            client.subscribe("jobs", acknowledge=True)


@pytest.mark.parametrize("text", ["", "  ", "two\nlines", " around ", "x" * 65536])
def test_what_would_not_arrive_as_it_is_is_refused_before_it_is_sent(lines: str, text: str) -> None:
    with LineClient(*at(lines)) as client:
        with pytest.raises(LineRefused):
            client.publish("refused", text)
        with pytest.raises(LineRefused, match="one word"):
            client.publish("two words", "x")
        assert client.history("refused", 0) == []


def test_a_message_that_looks_like_an_option_is_a_message(lines: str) -> None:
    with LineClient(*at(lines)) as client:
        assert client.publish("option", "--id is not an option")
        assert client.history("option", 1)[0].text == "--id is not an option"


def test_the_value_of_another_protocol_can_be_had_back(broker: Broker, lines: str) -> None:
    broker.produce("foreign", "a\\b\nc\r")
    with LineClient(*at(lines)) as client:
        (message,) = client.history("foreign", 1)
        assert message.text == "a\\\\b\\nc\\r"
        assert unescape(message.text) == "a\\b\nc\r"


def test_a_refusal_has_the_words_of_the_server(lines: str) -> None:
    with LineClient(*at(lines)) as client:
        with pytest.raises(LineRefused, match="InvalidTopicName"):
            client.publish("..", "x")
        client.ping()


def test_a_client_without_a_server_says_where_it_looked() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectionFailed, match=str(port)):
        LineClient("127.0.0.1", port)


def test_a_server_that_goes_ends_the_iteration_and_a_closed_client_is_closed() -> None:
    with Broker() as broker:
        client = LineClient(*at(broker.addresses["lines"]))
        client.subscribe("ending")
        timer = threading.Timer(0.2, broker.stop)
        timer.start()
        assert list(client) == []
        timer.join()
        with pytest.raises(ClientClosed):
            client.ping()
        client.close()


def test_a_server_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(RequestTimedOut):
        LineClient(*mute.getsockname(), timeout=0.2)


async def test_tasks_share_one_client(lines: str) -> None:
    async with AsyncLineClient(*at(lines)) as client, AsyncLineClient(*at(lines)) as other:
        await client.ping()
        await client.subscribe("tasks", "g")
        stored = await asyncio.gather(*(other.publish("tasks", f"{number}") for number in range(50)))
        assert all(stored)
        texts = []
        async for message in client:
            texts.append(message.text)
            if len(texts) == 50:
                break
        assert texts == [str(number) for number in range(50)]
        histories = await asyncio.gather(*(other.history("tasks", count) for count in (1, 5, 0)))
        assert [len(found) for found in histories] == [1, 5, 50]
        assert await other.publish_all("tasks", map(str, range(1200))) == 1200
        assert [one.offset for one in await other.range("tasks", 3, 4)] == [3, 4]
        assert len(await other.since("tasks", 0, 7)) == 7
        with pytest.raises(LineRefused):
            await other.history("two words")
        with pytest.raises(LineRefused, match="InvalidTopicName"):
            await other.publish("..", "x")
        assert await other.receive(0.05) is None


async def test_members_acknowledge_from_asyncio_too(lines: str) -> None:
    async with AsyncLineClient(*at(lines)) as client:
        await client.subscribe("later", "g", acknowledge=True)
        await client.publish("later", "one", "id-1")
        job = await client.receive(5)
        assert job is not None and job.id == "id-1"
        await client.acknowledge(job)
        with pytest.raises(LineRefused):
            await client.acknowledge("id-1")


async def test_who_waits_is_told_when_the_server_goes() -> None:
    async with Broker() as broker, AsyncLineClient(*at(broker.addresses["lines"])) as client:
        waiting = asyncio.create_task(client.receive())
        await asyncio.sleep(0.05)
        await broker.aio.stop()
        with pytest.raises(ConnectionFailed):
            await waiting
        with pytest.raises(ConnectionFailed):
            await client.ping()
        assert [message async for message in client] == []
    with pytest.raises(ClientClosed):
        await AsyncLineClient().ping()
