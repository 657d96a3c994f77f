"""Slow subscribers: they lose the oldest and stay; nobody waits for them; a topic on disk loses nothing."""

from __future__ import annotations

import base64
import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.broker import Broker
from headrace.testing.served import ServedBroker
from tests.doors_msgpack.kit import LIMIT_S, Raw, delivery, metric, publish, subscribe
from tests.support import MIB, rss_bytes, serving, wait_until

SIZE = 1000  # of a value
HEAD_BYTES = 3  # before it: its form and size
LOST = "headrace_door_lost_records_total"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with serving(Path(tmp_path_factory.mktemp("node"))) as broker:
        yield broker


def value(number: int) -> bytes:
    return b"\xc5" + struct.pack(">H", SIZE) + b"%08d" % number + b"." * (SIZE - 8)


def commands(topic: str, first: int, count: int) -> bytes:
    return b"".join(publish(topic, value(number)) for number in range(first, first + count))


def numbers(client: Raw, topic: str, last: int) -> list[int]:
    """Reads until that one came."""
    size, found = len(delivery(topic, value(0))), []
    while not found or found[-1] != last:
        one = client.exactly(size)
        number = int(one[-SIZE : -SIZE + 8])
        assert one == delivery(topic, value(number))
        found.append(number)
    return found


def test_a_stalled_subscriber_among_a_hundred_disturbs_nobody_and_loses_only_the_oldest(node: ServedBroker) -> None:
    count, at_once = 24_000, 400
    lost, before = metric(node.http, LOST), rss_bytes(node.pid)
    with contextlib.ExitStack() as stack:
        stalled = stack.enter_context(Raw(node.addresses["msgpack"], receive_bytes=64 << 10))
        others = [stack.enter_context(Raw(node.addresses["msgpack"])) for _ in range(99)]
        publisher = stack.enter_context(Raw(node.addresses["msgpack"]))
        for client in (stalled, *others):
            client.send(subscribe("slow"))
            client.in_order()
        for first in range(0, count, at_once):
            publisher.send(commands("slow", first, at_once))
            wanted = b"".join(delivery("slow", value(number)) for number in range(first, first + at_once))
            for client in others:
                assert client.exactly(len(wanted)) == wanted
        assert rss_bytes(node.pid) - before < 200 * MIB
        found = numbers(stalled, "slow", count - 1)
        gone = [at for at in range(1, len(found)) if found[at] != found[at - 1] + 1]
        assert len(gone) == 1, "what was on its way came, then the newest"
        assert found[0] == 0
        missing = count - len(found)
        assert missing > 5_000
        wait_until(lambda: metric(node.http, LOST) - lost == missing)
        publisher.send(publish("slow", value(count)))
        assert numbers(stalled, "slow", count) == [count], "it is still connected"


def test_a_publisher_never_waits_though_nobody_takes_anything(node: ServedBroker) -> None:
    with Raw(node.addresses["msgpack"], receive_bytes=64 << 10) as both, Raw(node.addresses["msgpack"]) as other:
        both.send(subscribe("own/*"))
        both.in_order()
        for first in range(0, 30_000, 300):  # it takes nothing of its own, and still is read
            both.send(commands("own/a", first, 300))
        other.send(subscribe("own/b"))
        other.in_order()
        both.send(publish("own/b", b"\xc3"))
        other.expect(delivery("own/b", b"\xc3"))


def test_of_a_topic_on_disk_a_slow_subscriber_loses_nothing() -> None:
    count = 30_000
    with Broker(topics=["kept"]) as broker, Raw(broker.addresses["msgpack"], receive_bytes=64 << 10) as slow:
        slow.send(subscribe("kept"))
        slow.in_order()
        with Raw(broker.addresses["msgpack"]) as publisher:
            for first in range(0, count, 300):
                publisher.send(commands("kept", first, 300))
            publisher.in_order()
            assert numbers(slow, "kept", count - 1) == list(range(count))
            publisher.send(commands("kept", count, 1))
            assert numbers(slow, "kept", count) == [count]


def test_of_a_hundred_topics_on_disk_a_slow_subscriber_loses_nothing() -> None:
    """Though what all of them have for it is far more than may wait."""
    count, at_once = 600, 100
    topics = [f"kept{number:02}" for number in range(100)]
    with Broker(topics=topics) as broker, Raw(broker.addresses["msgpack"], receive_bytes=64 << 10) as slow:
        slow.send(subscribe("kept*"))
        slow.in_order()
        with Raw(broker.addresses["msgpack"]) as publisher:
            for first in range(0, count, at_once):
                for topic in topics:
                    publisher.send(commands(topic, first, at_once))
            publisher.in_order()
        size, found = len(delivery(topics[0], value(0))), dict.fromkeys(topics, 0)
        for _ in range(count * len(topics)):
            one = slow.exactly(size)
            topic = one[2:8].decode()
            assert one == delivery(topic, value(found[topic]))
            found[topic] += 1
        slow.expect_nothing()
        assert metric(broker.addresses["http"], LOST) == 0


def test_memory_of_a_thousand_stalled_subscribers_is_bounded(node: ServedBroker) -> None:
    before = rss_bytes(node.pid)
    with contextlib.ExitStack() as stack:
        stalled = [stack.enter_context(Raw(node.addresses["msgpack"], receive_bytes=4 << 10)) for _ in range(1000)]
        for client in stalled:
            client.send(subscribe("much/*"))
        stalled[-1].in_order()
        publisher = stack.enter_context(Raw(node.addresses["msgpack"]))
        began = time.monotonic()
        for first in range(0, 20_000, 200):
            publisher.send(commands("much/a", first, 200))
        publisher.in_order()
        assert time.monotonic() - began < 60
        assert rss_bytes(node.pid) - before < 400 * MIB
        publisher.expect_nothing()


def test_what_a_slow_subscriber_at_the_lines_door_loses_of_a_memory_topic_is_counted(node: ServedBroker) -> None:
    count, ring_bytes = 40_000, 16 * MIB
    host, _, port = node.addresses["lines"].rpartition(":")
    before = metric(node.http, LOST, "lines")
    with Raw(node.addresses["msgpack"]) as publisher, socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        link.settimeout(LIMIT_S)
        link.connect((host, int(port)))
        link.sendall(b"SUB ring\n")
        lines = link.makefile("rb")
        while not lines.readline().startswith(b"OK subscribed"):
            pass
        assert count * SIZE > ring_bytes
        for first in range(0, count, 400):
            publisher.send(commands("ring", first, 400))
        publisher.in_order()
        assert metric(node.http, LOST, "lines") == before, "it may still come for them"
        last, got = base64.b64encode(value(count - 1)[HEAD_BYTES:]), 0
        for line in lines:
            if line.startswith(b"MSG ring "):
                got += 1
                if last in line:
                    break
        assert got < count
        assert metric(node.http, LOST, "lines") - before == count - got
