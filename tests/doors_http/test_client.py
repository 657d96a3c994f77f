"""`HttpClient` against a real node, and against servers that fail in every way a network can."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from headrace.compat import AsyncHttpClient, HttpClient
from headrace.compat.http_values import AnswerTooLarge, HttpRefused, PublishUncertain
from headrace.errors import ClientClosed, ClientError, ConnectionFailed
from headrace.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as found:
        yield found


@pytest.fixture
def client(broker: Broker) -> Iterator[HttpClient]:
    with HttpClient(broker.http) as found:
        yield found


@pytest.fixture
def topic(client: HttpClient, request: pytest.FixtureRequest) -> str:
    name = f"t/{request.node.name}"[:200]
    client.create_topic(name)
    return name


def test_what_was_published_is_polled_and_committed(client: HttpClient, topic: str) -> None:
    for n in range(5):
        done = client.publish(topic, {"n": n}, key=f"k{n}", headers={"a": "b"})
        assert (done.offset, done.isr, done.duplicate) == (n, [0], False)
    polled = client.poll(topic, consumer_id="c", max_records=3)
    assert [record.value for record in polled.records] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert (polled.records[0].key, polled.records[0].headers) == ("k0", {"a": "b"})
    assert client.commit(topic, 2, consumer_id="c") == 2
    assert client.subscribe(topic, consumer_id="c")["start_offset"] == 3


def test_many_are_published_with_a_result_each(client: HttpClient, topic: str) -> None:
    results = client.publish_many(topic, [{"value": 1}, {"value_base64": "?"}, {"value": 2}])
    assert [result.ok for result in results] == [True, False, True]
    assert results[1].status == 400


def test_a_consumer_reads_all_and_another_of_its_group_goes_on(client: HttpClient, topic: str) -> None:
    client.publish_many(topic, [{"value": n} for n in range(25)])
    who = {"group_id": "g", "consumer_id": "c"}
    found = [record.value for record in client.consume(topic, **who, max_records=10, timeout_ms=0, until_idle=True)]
    assert found == list(range(25))
    client.publish(topic, 25)
    with pytest.raises(HttpRefused) as refused:
        client.poll(topic, group_id="g", consumer_id="other")
    assert (refused.value.status, refused.value.detail) == (409, "Group already has an active consumer")
    again = [record.value for record in client.consume(topic, **who, timeout_ms=0, until_idle=True)]
    assert again == [25]


def test_without_commits_a_consumer_goes_on_and_the_next_begins_anew(client: HttpClient, topic: str) -> None:
    client.publish_many(topic, [{"value": n} for n in range(25)])
    for _ in range(2):
        records = client.consume(topic, max_records=10, timeout_ms=0, until_idle=True, commit=False)
        assert [record.value for record in records] == list(range(25))


def test_a_group_reads_several_partitions(client: HttpClient) -> None:
    client.create_topic("several", partitions=3)
    client.publish_many("several", [{"value": n, "partition": n % 3} for n in range(30)])
    who = {"group_id": "g", "consumer_id": "c"}
    records = list(client.consume("several", **who, max_records=4, timeout_ms=0, until_idle=True))
    assert sorted(record.value for record in records) == list(range(30))
    assert list(client.consume("several", **who, timeout_ms=0, until_idle=True)) == []


def test_ranges_and_streams(client: HttpClient, topic: str) -> None:
    client.publish_many(topic, [{"value": n} for n in range(50)])
    assert [record.offset for record in client.records(topic, from_=10, to=40, limit=7)] == list(range(10, 40))
    stream = client.stream(topic, from_offset=48)
    assert [next(stream).offset for _ in range(2)] == [48, 49]
    client.publish(topic, "more")
    assert next(stream).value == "more"


def test_a_stream_goes_on_after_a_lost_connection(broker: Broker, client: HttpClient, topic: str) -> None:
    client.publish_many(topic, [{"value": n} for n in range(3)])
    stream = client.stream(topic, from_offset=0)
    assert [next(stream).offset for _ in range(2)] == [0, 1]
    broker.drop_connections()
    client.publish(topic, 3)
    assert [next(stream).offset for _ in range(2)] == [2, 3]


def test_topics_and_nodes_are_administered(client: HttpClient, topic: str) -> None:
    with pytest.raises(HttpRefused) as refused:
        client.create_topic(topic)
    assert refused.value.error == "TOPIC_EXISTS"
    assert client.topic(topic)["replica_count"] == 1
    assert topic in client.topics()
    assert topic in client.metadata()["topics"]
    assert client.replicas(topic)["owner"] == 0
    assert client.leader()["this_broker_is_leader"]
    assert client.isr()["topics"][topic]["isr"] == [0]
    assert client.stats()["broker_id"] == client.metrics()["broker_id"] == 0
    with pytest.raises(HttpRefused, match="Unknown broker_id 7"):
        client.add_replica(topic, 7)
    with pytest.raises(HttpRefused, match="Cannot remove the owner"):
        client.remove_replica(topic, 0)
    client.delete_topic(topic)
    with pytest.raises(HttpRefused, match="not found"):
        client.topic(topic)


def test_connections_that_were_dropped_cost_no_request(broker: Broker, client: HttpClient, topic: str) -> None:
    for n in range(5):
        assert client.publish(topic, n).offset == n
        broker.drop_connections()
        time.sleep(0.05)


def test_threads_share_a_client(client: HttpClient, topic: str) -> None:
    def publish() -> None:
        for n in range(20):
            client.publish(topic, n)

    threads = [threading.Thread(target=publish) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(client.records(topic))) == 120


def test_a_closed_client_says_so(broker: Broker) -> None:
    client = HttpClient(broker.http)
    client.topics()
    client.close()
    with pytest.raises(ClientClosed):
        client.topics()


@pytest.mark.parametrize("address", ["", "http://", "https://h:1", "h:port", "ftp://h:1"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ClientError, match="no address"):
        HttpClient(address)


# Failover


@contextmanager
def server(handle: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does with each connection what it likes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    handle(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def takes_and_leaves(connection: socket.socket) -> None:
    connection.recv(1 << 16)


def busy(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    body = b'{"detail":"ISR replication failed"}'
    connection.sendall(b"HTTP/1.1 503 x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


def not_leader(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    body = json.dumps({"detail": {"error": "NOT_LEADER", "leader_id": 3}}).encode()
    connection.sendall(b"HTTP/1.1 409 x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


def test_an_address_where_nobody_is_is_passed_by_also_for_a_publish(broker: Broker, topic: str) -> None:
    with HttpClient([closed_port(), f"http://{broker.http}"]) as client:
        assert client.publish(topic, 1).offset == 0
        assert client.address == broker.http  # and it stays there
        assert client.publish(topic, 2).offset == 1


@pytest.mark.parametrize("fault", [takes_and_leaves, busy])
def test_reading_goes_on_at_another_address(broker: Broker, topic: str, fault: Callable[[socket.socket], None]) -> None:
    with server(fault) as faulty, HttpClient(f"{faulty},{broker.http}") as client:
        assert client.poll(topic, timeout_ms=0).records == []
        assert client.commit(topic, -1) == -1


def test_a_publish_without_an_answer_is_not_sent_twice(broker: Broker, topic: str) -> None:
    with server(takes_and_leaves) as faulty, HttpClient([faulty, broker.http]) as client:
        with pytest.raises(PublishUncertain, match="whether the record is there is not known"):
            client.publish(topic, 1)
        assert client.poll(topic, timeout_ms=0).records == []
    refused = pytest.raises(HttpRefused, match="ISR replication failed")
    with server(busy) as faulty, HttpClient([faulty, broker.http]) as client, refused:
        client.publish(topic, 1)


def test_a_publish_with_an_id_may_be_sent_again_when_the_caller_says_so(broker: Broker, topic: str) -> None:
    with server(takes_and_leaves) as faulty, HttpClient([faulty, broker.http]) as client:
        assert client.publish(topic, 1, message_id="m", resend=True).offset == 0
    uncertain = pytest.raises(PublishUncertain)
    with server(takes_and_leaves) as faulty, HttpClient([faulty, broker.http]) as client, uncertain:
        client.publish(topic, 1, resend=True)  # without an id


def test_who_is_not_the_leader_is_passed_by(broker: Broker) -> None:
    with server(not_leader) as other, HttpClient([other, broker.http]) as client:
        assert client.create_topic("led")["status"] == "ok"
    with server(not_leader) as other, HttpClient(other) as client, pytest.raises(HttpRefused) as refused:
        client.create_topic("led")
    assert refused.value.detail == {"error": "NOT_LEADER", "leader_id": 3}


def test_nobody_anywhere_is_told_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.compat.http_links.PAUSE_S", 0.01)
    failed = pytest.raises(ConnectionFailed, match="check that it runs")
    with HttpClient([closed_port(), closed_port()]) as client, failed:
        client.topics()


@pytest.mark.parametrize("is_told", [True, False])
def test_an_answer_that_is_too_large_is_told_at_once_and_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, is_told: bool
) -> None:
    """Whether it says its length beforehand or not."""
    monkeypatch.setattr("headrace.compat.http_links.MAX_BODY_BYTES", 3 << 20)
    asked: list[bytes] = []

    def too_much(connection: socket.socket) -> None:
        asked.append(connection.recv(1 << 16))
        length = b"content-length: %d\r\n" % (64 << 20) if is_told else b"connection: close\r\n"
        connection.sendall(b"HTTP/1.1 200 x\r\n" + length + b"\r\n")
        with suppress(OSError):
            connection.sendall(bytes(16 if is_told else 4 << 20))

    words = "more than 3 MiB, which is all that this client takes: ask for less"
    with server(too_much) as address, HttpClient(address) as client, pytest.raises(AnswerTooLarge, match=words):
        client.topics()
    assert len(asked) == 1


def test_the_replica_that_answered_is_preferred() -> None:
    asked: list[bytes] = []

    def replica(connection: socket.socket) -> None:
        for _ in range(2):
            asked.append(connection.recv(1 << 16).split(b"\r\n")[0])
            told = {"topic": "t", "records": [], "next_offset": 0, "committed": -1, "replica_id": 2}
            body = json.dumps(told).encode()
            connection.sendall(b"HTTP/1.1 200 x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    with server(replica) as address, HttpClient(address) as client:
        assert client.poll("t").replica_id == 2
        client.poll("t")
    assert b"prefer_replica" not in asked[0]
    assert b"prefer_replica=2" in asked[1]


async def test_the_client_for_event_loops(broker: Broker) -> None:
    async with AsyncHttpClient(broker.http) as client:
        await client.create_topic("aio")
        waiting = asyncio.create_task(client.poll("aio", timeout_ms=20_000))
        assert (await client.publish("aio", {"a": 1})).offset == 0
        assert (await client.publish_many("aio", [{"value": 2}]))[0].offset == 1
        assert (await waiting).records[0].value == {"a": 1}
        assert [record.value async for record in client.records("aio")] == [{"a": 1}, 2]
        records = client.consume("aio", consumer_id="c", timeout_ms=0, until_idle=True)
        assert [record.offset async for record in records] == [0, 1]
        assert await client.commit("aio", 0, consumer_id="c") == 0
        assert "aio" in await client.topics()
        await client.delete_topic("aio")


async def test_a_close_ends_what_waits_and_leaves_no_thread_behind(broker: Broker) -> None:
    client = AsyncHttpClient(broker.http)
    await client.create_topic("left")
    await client.publish("left", "first")
    stream = client.stream("left", from_offset=0)
    assert (await anext(stream)).value == "first"

    async def rest() -> None:
        await anext(stream)

    waiting = [asyncio.create_task(client.poll("left", from_offset=1, timeout_ms=60_000)), asyncio.create_task(rest())]
    await asyncio.sleep(0.3)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("headrace-http")]
    assert threads and not any(task.done() for task in waiting)
    await client.close()
    for task in waiting:
        with pytest.raises(ClientClosed):
            await asyncio.wait_for(task, 10)
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    with pytest.raises(ClientClosed):
        await client.topics()


async def test_an_event_loop_has_streams(broker: Broker) -> None:
    async with AsyncHttpClient(broker.http) as client:
        await client.create_topic("flow")
        await client.publish_many("flow", [{"value": n} for n in range(3)])
        stream = client.stream("flow", from_offset=1)
        assert [(await anext(stream)).value for _ in range(2)] == [1, 2]
        await client.publish("flow", 3)
        assert (await anext(stream)).value == 3
