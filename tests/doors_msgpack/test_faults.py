"""Clients that misbehave: garbage, silence, half a command, too many of them. Others are served, nothing is left."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.served import ServedBroker
from tests.doors_msgpack.kit import Raw, delivery, publish, subscribe
from tests.support import no_leak, open_sockets, serving, wait_until

TRUE = b"\xc3"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with serving(Path(tmp_path_factory.mktemp("node"))) as broker:
        yield broker


@contextlib.contextmanager
def undisturbed(node: ServedBroker) -> Iterator[None]:
    """Others publish and receive while it goes on, and no connection is left in the end."""
    with no_leak(node.pid, node.address), Raw(node.addresses["msgpack"]) as client:
        client.send(subscribe("bystander"))
        client.in_order()
        yield
        client.send(publish("bystander", TRUE))
        client.expect(delivery("bystander", TRUE))
        client.expect_nothing()


def test_garbage_closes_its_connection_and_no_other(node: ServedBroker) -> None:
    chance = random.Random(7)
    with undisturbed(node):
        for turn in range(300):
            with Raw(node.addresses["msgpack"]) as client, contextlib.suppress(ConnectionError):
                garbage = chance.randbytes(chance.randrange(1, 2000))
                client.send(*([publish("bystanders", TRUE)] if turn % 2 else []), bytes([0xFF]), garbage)
                assert client.ends()


def test_a_command_that_comes_one_byte_at_a_time_is_taken(node: ServedBroker) -> None:
    with undisturbed(node), Raw(node.addresses["msgpack"]) as client:
        for one in subscribe("byte/?") + publish("byte/x", b"\x93\x01\x02\x03"):
            client.send(bytes([one]))
            time.sleep(0.001)
        client.expect(delivery("byte/x", b"\x93\x01\x02\x03"))


def test_half_a_command_holds_up_nobody_and_ends_with_its_connection(node: ServedBroker) -> None:
    with undisturbed(node), contextlib.ExitStack() as stack:
        for _ in range(50):
            client = stack.enter_context(Raw(node.addresses["msgpack"]))
            client.send(publish("half", b"\xc6\x00\x0c\x00\x00" + b"x" * 5_000))


def test_connections_that_end_in_a_reset_leave_nothing(node: ServedBroker) -> None:
    with undisturbed(node):
        for turn in range(300):
            client = Raw(node.addresses["msgpack"])
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.send(subscribe("*"), publish("reset", TRUE) * (turn % 5))
            client.socket.close()


def test_who_says_no_more_is_gone(node: ServedBroker) -> None:
    with undisturbed(node), Raw(node.addresses["msgpack"]) as client:
        client.send(subscribe("end"), publish("end", TRUE))
        client.socket.shutdown(socket.SHUT_WR)
        client.expect(delivery("end", TRUE))
        assert client.ends()


def test_two_thousand_connections_all_publish_and_receive(node: ServedBroker) -> None:
    with undisturbed(node), contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Raw(node.addresses["msgpack"])) for _ in range(2000)]
        for client in clients:
            client.send(subscribe("crowd"))
        for client in clients:
            client.in_order()
        for number in (0, 999, 1999):
            clients[number].send(publish("crowd", struct.pack(">BH", 0xCD, number + 1000)))
            for client in clients:
                client.expect(delivery("crowd", struct.pack(">BH", 0xCD, number + 1000)))
        for client in clients[:200]:
            client.expect_nothing()


def test_too_many_patterns_close_the_connection(node: ServedBroker) -> None:
    with undisturbed(node), Raw(node.addresses["msgpack"]) as client:
        client.send(b"".join(subscribe(f"many/{number}") for number in range(10_000)), publish("many/77", TRUE))
        client.expect(delivery("many/77", TRUE))
        client.send(subscribe("one/more"))
        assert client.ends()


def test_more_names_than_there_may_be_topics_are_still_delivered(node: ServedBroker) -> None:
    with undisturbed(node), Raw(node.addresses["msgpack"]) as client:
        client.send(subscribe("flood/*"))
        for first in range(10_000, 20_500, 500):
            names = [f"flood/{number}" for number in range(first, first + 500)]
            client.send(b"".join(publish(name, TRUE) for name in names))
            wanted = [delivery(name, TRUE) for name in names]
            size = len(wanted[0])
            assert sorted(client.exactly(size) for _ in wanted) == wanted


def test_a_connection_that_went_without_a_word_does_not_stay_for_ever(node: ServedBroker) -> None:
    before = open_sockets(node.pid)
    client = Raw(node.addresses["msgpack"])
    client.send(subscribe("gone"))
    client.in_order()
    wait_until(lambda: open_sockets(node.pid) == before + 1)
    client.socket.close()
    wait_until(lambda: open_sockets(node.pid) == before)
