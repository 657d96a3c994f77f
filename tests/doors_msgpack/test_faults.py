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

from headrace.doors.msgpack.connection import MsgpackConnection
from headrace.doors.msgpack.limits import TURN_COST, msgpack_limits
from headrace.testing.broker import Broker
from headrace.testing.served import ServedBroker
from tests.doors_msgpack.kit import Raw, delivery, metric, publish, subscribe
from tests.support import no_leak, open_sockets, serving, wait_until

TRUE = b"\xc3"
TCP_REPAIR = 19  # of Linux: a connection that is closed under it says nothing
KEEPALIVE_TIMER = 2  # as the kernel shows it


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


def timer(local_port: int, remote_port: int) -> int:
    """Which one runs for the node's side of a connection."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if [int(address.rpartition(":")[2], 16) for address in fields[1:3]] == [local_port, remote_port]:
            return int(fields[5].partition(":")[0], 16)
    raise AssertionError("there is no such connection")


def _closed(broker: Broker) -> list[object]:
    return [event.fields["cause"] for event in broker.events if event.name == "door.closed"]


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


HALF = publish("half", b"\xc6\x00\x0c\x00\x00" + b"x" * 5_000)


def test_half_a_command_holds_up_nobody_and_ends_with_its_connection(node: ServedBroker) -> None:
    with undisturbed(node), contextlib.ExitStack() as stack:
        for _ in range(50):
            client = stack.enter_context(Raw(node.addresses["msgpack"]))
            client.send(HALF)


def test_half_a_command_whose_rest_does_not_come_closes_its_connection_and_no_other() -> None:
    limit_s = msgpack_limits().stall_ms / 1000
    with Broker() as broker, contextlib.ExitStack() as stack:
        address = broker.addresses["msgpack"]
        halves, whole = [stack.enter_context(Raw(address)) for _ in range(10)], stack.enter_context(Raw(address))
        whole.send(subscribe("whole"))
        for client in halves:
            client.send(subscribe("whole"))
            client.in_order()
            client.send(HALF)
        whole.in_order()
        wait_until(lambda: metric(broker.addresses["http"], "headrace_door_unfinished_bytes") == 10 * len(HALF))
        broker.clock.advance(2)  # it is seen that nothing moves
        broker.clock.advance(limit_s - 10)
        whole.send(publish("whole", TRUE))
        for client in (whole, *halves):  # not yet
            client.expect(delivery("whole", TRUE))
        broker.clock.advance(2)
        broker.clock.advance(limit_s + 2)
        for client in halves:
            assert client.ends()
        assert _closed(broker) == ["stalled"] * 10
        whole.send(publish("whole", TRUE))
        whole.expect(delivery("whole", TRUE))
        whole.expect_nothing()


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


def test_a_fault_of_ours_amid_many_commands_ends_their_connection_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What one read brought is done in several turns; in a later one nobody who reads is above it."""
    take = MsgpackConnection._subscribe

    def fails(connection: MsgpackConnection, pattern: str) -> None:
        if pattern == "fault":
            raise RuntimeError("ours")
        take(connection, pattern)

    monkeypatch.setattr(MsgpackConnection, "_subscribe", fails)
    broker = Broker()
    broker.start()
    try:
        with Raw(broker.addresses["msgpack"]) as client, Raw(broker.addresses["msgpack"]) as other:
            other.send(subscribe("other"))
            other.in_order()
            many = [subscribe(f"many/{number}") for number in range(2 * TURN_COST)]
            client.send(*many, publish("other", TRUE), subscribe("fault"), *many)
            assert client.ends()
            other.expect(delivery("other", TRUE))
            other.expect_nothing()
            assert _closed(broker) == ["fault"]
            wait_until(lambda: metric(broker.addresses["http"], "headrace_door_connections") == 1)
        (fault,) = [event for event in broker.events if event.name == "node.fault"]
        assert "RuntimeError: ours" in str(fault.fields["traceback"])
    finally:
        broker.close(check=False)


def test_more_names_than_there_may_be_topics_are_still_delivered(node: ServedBroker) -> None:
    with undisturbed(node), Raw(node.addresses["msgpack"]) as client:
        client.send(subscribe("flood/*"))
        for first in range(10_000, 20_500, 500):
            names = [f"flood/{number}" for number in range(first, first + 500)]
            client.send(b"".join(publish(name, TRUE) for name in names))
            wanted = [delivery(name, TRUE) for name in names]
            size = len(wanted[0])
            assert sorted(client.exactly(size) for _ in wanted) == wanted


def test_a_connection_that_ends_without_a_command_leaves_nothing(node: ServedBroker) -> None:
    """The protocol has no word for it: the stream just ends."""
    before = open_sockets(node.pid)
    client = Raw(node.addresses["msgpack"])
    client.send(subscribe("gone"))
    client.in_order()
    wait_until(lambda: open_sockets(node.pid) == before + 1)
    client.socket.close()
    wait_until(lambda: open_sockets(node.pid) == before)


def test_a_client_that_vanished_is_found_when_it_is_asked(node: ServedBroker) -> None:
    """Its machine died and came back: no end and no reset were sent, and it knows nothing of the connection."""
    before = open_sockets(node.pid)
    client = Raw(node.addresses["msgpack"])
    client.send(subscribe("vanished/*"))
    client.in_order()
    wait_until(lambda: open_sockets(node.pid) == before + 1)
    try:
        client.socket.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    except OSError:
        client.socket.close()
        pytest.skip("only who may administer the network makes a connection vanish")
    client.socket.close()
    time.sleep(0.3)
    assert open_sockets(node.pid) == before + 1, "the node has not heard of it"
    with Raw(node.addresses["msgpack"]) as publisher:
        publisher.send(publish("vanished/x", TRUE))
        publisher.in_order()
    wait_until(lambda: open_sockets(node.pid) == before)


def test_the_kernel_asks_after_a_client_that_is_silent(node: ServedBroker) -> None:
    """So one that vanished and has nothing to get is found too, after two minutes."""
    with Raw(node.addresses["msgpack"]) as client:
        client.in_order()
        here, there = (int(address[1]) for address in (client.socket.getpeername(), client.socket.getsockname()))
        wait_until(lambda: timer(here, there) == KEEPALIVE_TIMER)


def test_a_client_that_takes_nothing_any_more_is_taken_for_gone_after_an_hour() -> None:
    """Its machine hangs, or the way to it is cut: whatever is sent stays unsent."""
    limit_s = msgpack_limits().take_ms / 1000
    with Broker() as broker, Raw(broker.addresses["msgpack"], receive_bytes=4 << 10) as hung:
        hung.send(subscribe("hung"))
        hung.in_order()
        with Raw(broker.addresses["msgpack"]) as client:
            client.send(b"".join(publish("hung", b"\xc5\xff\xff" + b"x" * 0xFFFF) for _ in range(200)))
            client.in_order()
            broker.clock.advance(2)
            broker.clock.advance(limit_s / 2)
            client.in_order()
            assert not _closed(broker)
            broker.clock.advance(limit_s)
            wait_until(lambda: _closed(broker) == ["slow"])
            client.send(publish("hung", TRUE))
            client.expect_nothing()


def test_one_connection_more_than_there_may_be_is_closed_and_the_others_stay(tmp_path: Path) -> None:
    with serving(tmp_path, "--msgpack-max-connections", "20") as node, contextlib.ExitStack() as stack:
        address = node.addresses["msgpack"]
        clients = [stack.enter_context(Raw(address)) for _ in range(20)]
        for client in clients:
            client.send(subscribe("crowd"))
            client.in_order()
        for _ in range(5):
            with Raw(address) as refused:
                assert refused.ends()
        assert metric(node.http, "headrace_door_connections_refused_total") == 5
        clients[0].send(publish("crowd", TRUE))
        for client in clients:
            client.expect(delivery("crowd", TRUE))
            client.expect_nothing()
        clients.pop().socket.close()
        wait_until(lambda: metric(node.http, "headrace_door_connections") == 19)
        with Raw(address) as heir:
            heir.in_order()
