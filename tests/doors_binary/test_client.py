"""`BrokerClient` and its async twin against a real node."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from headrace.compat import AsyncBrokerClient, BrokerClient, NotHandled
from headrace.compat.binary_values import Message, PublishedAt, Refused
from headrace.errors import ClientClosed, ConnectionFailed
from tests.doors_binary.raw import LIMIT_S
from tests.doors_binary.running import Running, until

T = TypeVar("T")
QUICK_S = 0.05  # between two attempts to connect


async def threaded(work: Callable[[], T]) -> T:
    """The node runs on this loop: a client that blocks needs a thread."""
    async with asyncio.timeout(LIMIT_S):
        return await asyncio.to_thread(work)


def client(binary: Running, name: str = "me", **more: float) -> BrokerClient:
    return BrokerClient(binary.at.host, binary.at.port, name, retry_delay=QUICK_S, **more)


async def test_the_first_program_of_the_protocol_works(binary: Running) -> None:
    received: queue.Queue[Message] = queue.Queue()

    def program() -> list[Message]:
        with client(binary, "my_client") as broker:
            broker.create_topic("events", partitions=3)
            broker.publish_text("events", "Hello World!", partition=0)
            broker.subscribe("events", partition=0, handler=received.put)
            broker.publish_text("events", "again", partition=0)
            return [received.get(timeout=LIMIT_S) for _ in range(2)]

    first, second = await threaded(program)
    assert (first.topic, first.partition, first.offset, first.text) == ("events", 0, 0, "Hello World!")
    assert first.properties["client_id"] == "my_client"
    assert (second.offset, second.body) == (1, b"again")
    await until(lambda: not len(binary.door))
    assert not binary.door.subscribers


async def test_a_refusal_is_an_error_with_the_brokers_words(binary: Running) -> None:
    def program() -> None:
        with client(binary) as broker:
            assert broker.create_topic("t") is True
            assert broker.create_topic("t") is False  # the one refusal that the protocol's programs take for an answer
            with pytest.raises(Refused, match=r"^Partition count 100000 exceeds maximum "):
                broker.create_topic("wide", 100_000)
            with pytest.raises(Refused, match=r"^Topic 'none' does not exist$"):
                broker.publish("none", b"x")
            with pytest.raises(Refused, match=r"^Topic 'none' does not exist$"):
                broker.subscribe("none", handler=print)
            assert broker.publish("t", b"x", properties={"key": "k", "acks": "1"}) == PublishedAt("t", 0, 0)
            broker.ping()
        with pytest.raises(ClientClosed):
            broker.publish("t", b"x")

    await threaded(program)


async def test_who_is_not_there_is_named_in_the_error(binary: Running) -> None:
    def program() -> None:
        with pytest.raises(ConnectionFailed, match=r"no connection to 127\.0\.0\.1:1 .*is a broker with a binary door"):
            BrokerClient("127.0.0.1", 1, max_retries=1, retry_delay=0.01).connect()

    await threaded(program)


async def test_a_message_is_never_taken_for_a_reply_whatever_its_number(binary: Running) -> None:
    def program() -> tuple[list[int], list[int]]:
        received: queue.Queue[Message] = queue.Queue()
        with client(binary) as broker:
            broker.create_topic("t")  # sequence 1; messages have the numbers from 0 on
            broker.subscribe("t", handler=received.put)
            published = [broker.publish("t", b"%d" % n).offset for n in range(20)]
            return published, [received.get(timeout=LIMIT_S).offset for _ in range(20)]

    assert await threaded(program) == (list(range(20)), list(range(20)))


async def test_a_handler_may_publish_subscribe_and_end_its_own_subscription(binary: Running) -> None:
    def program() -> str:
        done: queue.Queue[str] = queue.Queue()
        left = threading.Event()
        with client(binary) as broker:
            broker.create_topic("a")
            broker.create_topic("b")

            def on_a(message: Message) -> None:
                broker.subscribe("b", handler=lambda found: done.put(found.text))
                broker.publish("b", message.text + "!")
                broker.unsubscribe("a")
                left.set()

            broker.subscribe("a", handler=on_a)
            broker.publish("a", "x")
            found = done.get(timeout=LIMIT_S)
            assert left.wait(LIMIT_S)
            broker.publish("a", "nobody hears")
            broker.subscribe("a", offset=2, handler=print)  # free again
            return found

    assert await threaded(program) == "x!"


async def test_a_handler_that_fails_is_told_of_and_the_next_message_comes(
    binary: Running, caplog: pytest.LogCaptureFixture
) -> None:
    def program() -> list[int]:
        received: queue.Queue[int] = queue.Queue()

        def handler(message: Message) -> None:
            received.put(message.offset)
            if message.offset == 0:
                raise ValueError("mine")

        with client(binary) as broker:
            broker.create_topic("t")
            broker.subscribe("t", handler=handler)
            broker.publish("t", b"a")
            broker.publish("t", b"b")
            return [received.get(timeout=LIMIT_S) for _ in range(2)]

    assert await threaded(program) == [0, 1]
    assert "the handler of t[0] failed" in caplog.text


async def test_a_lost_connection_is_made_anew_and_the_subscription_goes_on_where_it_was(binary: Running) -> None:
    loop, received = asyncio.get_running_loop(), queue.Queue[int]()

    def cut() -> None:
        for connection in binary.door.connections():
            connection.abort("test")

    def program() -> list[int]:
        with client(binary) as broker:
            broker.create_topic("t")
            broker.subscribe("t", handler=lambda message: received.put(message.offset))
            got = []
            for n in range(5):
                broker.publish("t", b"%d" % n)
                got.append(received.get(timeout=LIMIT_S))
                loop.call_soon_threadsafe(cut)
                for _ in range(100):
                    try:
                        broker.publish("t", b"between")
                        break
                    except ConnectionFailed:
                        pass
                got.append(received.get(timeout=LIMIT_S))
            return got

    got = await threaded(program)
    assert got == sorted(set(got)), "a gap or a duplicate"
    assert got[0] == 0


async def test_a_group_at_least_once_gives_back_what_its_handler_failed_on(binary: Running) -> None:
    def program() -> tuple[list[str], list[str]]:
        received: queue.Queue[tuple[str, str]] = queue.Queue()
        once = threading.Event()

        def handler(message: Message) -> None:
            received.put((message.text, message.properties["attempt"]))
            if not once.is_set():
                once.set()
                raise ValueError("not now")

        with client(binary) as broker:
            broker.create_topic("t")
            broker.subscribe("t", handler=handler, group="g", auto_ack=False)
            broker.publish("t", "work")
            first, second = [received.get(timeout=LIMIT_S) for _ in range(2)]
            return list(first), list(second)

    assert await threaded(program) == (["work", "1"], ["work", "2"])


async def test_what_a_handler_leaves_as_it_came_is_the_first_that_the_next_one_gets(binary: Running) -> None:
    def program() -> list[str]:
        received: queue.Queue[str] = queue.Queue()
        left = threading.Event()

        def first_two(message: Message) -> None:
            if message.offset >= 2:
                left.set()
                raise NotHandled

        with client(binary) as broker:
            broker.create_topic("t")
            for number in range(6):
                broker.publish("t", str(number))
            subscription = broker.subscribe("t", handler=first_two, group="g", auto_ack=False)
            assert left.wait(LIMIT_S)
            subscription.close()
            broker.subscribe("t", handler=lambda message: received.put(message.text), group="g", auto_ack=False)
            return [received.get(timeout=LIMIT_S) for _ in range(4)]

    assert await threaded(program) == ["2", "3", "4", "5"]


async def test_the_async_twin_does_the_same(binary: Running) -> None:
    at = binary.at.host, binary.at.port
    async with AsyncBrokerClient(*at, "me", retry_delay=QUICK_S) as broker, asyncio.timeout(LIMIT_S):
        await broker.create_topic("t", partitions=2)
        places = await asyncio.gather(*(broker.publish("t", f"{n}", partition=1) for n in range(50)))
        assert [place.offset for place in places] == list(range(50))
        subscription = await broker.subscribe("t", partition=1, offset=10)
        got = [await anext(subscription) for _ in range(40)]
        assert [(message.offset, message.text, message.partition) for message in got] == [
            (n, f"{n}", 1) for n in range(10, 50)
        ]
        for connection in binary.door.connections():
            connection.abort("test")
        await until(lambda: not len(binary.door))
        assert (await broker.publish("t", "after", partition=1)).offset == 50
        assert (await anext(subscription)).offset == 50
        with pytest.raises(Refused, match=r"does not exist"):
            await broker.publish("none", b"")
        await broker.ping()
        worker = await broker.subscribe("t", group="g", auto_ack=False, replay=True)
        first = await anext(worker)
        second = await anext(worker)
        assert (first.offset, second.offset) == (0, 1)
        worker.settle("release")
        await worker.close()
    await until(lambda: not len(binary.door))
    with pytest.raises(ClientClosed):
        await broker.ping()


async def test_heartbeats_of_the_client_keep_an_idle_connection_open(binary: Running) -> None:
    def program() -> None:
        with client(binary, heartbeat=0.2) as broker:
            broker.create_topic("t")
            broker.subscribe("t", handler=print)
            threading.Event().wait(1.0)
            broker.ping()

    before = binary.door.metrics.requests
    await threaded(program)
    assert binary.door.metrics.requests - before > 6


async def test_a_server_that_has_gone_silent_is_found_by_the_heartbeats_it_owes() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    def program() -> None:
        lost = pytest.raises(ConnectionFailed, match="whether the request was done is not known")
        with BrokerClient(port=port, heartbeat=0.1) as broker, lost:
            broker.ping()

    async with server:
        await threaded(program)
