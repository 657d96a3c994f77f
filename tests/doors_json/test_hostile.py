"""JSON from strangers: garbage, oversize, silence and crowds. Bounds hold, others are served; kill -9 costs nothing."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.broker import Broker
from headrace.testing.served import ServedBroker
from tests.doors_json.kit import Kept, connect, consume, publish, reply, request, rest
from tests.support import MIB, Peak, no_leak, rss_bytes, serving

CROWD = 2000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with serving(tmp_path_factory.mktemp("json")) as broker:
        yield broker


@pytest.fixture
def door(node: ServedBroker) -> str:
    return node.addresses["json"]


def test_garbage_costs_nobody_anything(node: ServedBroker, door: str) -> None:
    chance = random.Random(13)
    with no_leak(node.pid, node.address), Kept(door) as bystander:
        for turn in range(200):
            with connect(door) as peer, contextlib.suppress(ConnectionError):
                peer.sendall((b"", b"\n", b"{")[turn % 3] + chance.randbytes(chance.randrange(1, 3000)))
                peer.shutdown(socket.SHUT_WR)
                for line in rest(peer).splitlines():
                    assert json.loads(line)["status"] == "failure"
        assert json.loads(bystander.ask(b"{}"))["message"] == "Unknown request type"


def test_a_document_without_end_is_refused_at_the_limit_and_its_memory_given_back(
    node: ServedBroker, door: str
) -> None:
    with no_leak(node.pid, node.address), Peak(node.pid) as peak:
        for first in (b'{"a": "', b'\n{"a": "', b'{"a": [', b"\n"):
            with connect(door) as peer:
                got = b""
                with contextlib.suppress(ConnectionError):
                    peer.sendall(first)
                    for _ in range(24):
                        peer.sendall(b"1," * (MIB // 2))
                    got = rest(peer)
                assert not got or "over the limit" in json.loads(got)["message"]
    assert peak.grown_bytes < 120 * MIB


def test_a_megabyte_of_small_things_is_not_made_into_objects(node: ServedBroker, door: str) -> None:
    small = b"[" + b"{}," * 5_000_000 + b"1]"
    with Peak(node.pid) as peak, Kept(door) as bystander:
        for document in (
            b'{"type": "publish", "topic_name": "objects", "payload": %b}',
            b'{"type": "publish", "topic_name": %b, "payload": 1}',
            b'{"type": "publish", "topic_name": "objects", "payload": 1, "x": %b}',
        ):
            with connect(door) as peer:
                peer.sendall(document % small)
                begin = time.monotonic()
                bystander.ask(b"{}")
                assert time.monotonic() - begin < 3
                assert json.loads(rest(peer))["status"] in ("failure", "success")
    assert peak.grown_bytes < 150 * MIB
    payload = [{}] * 200_000
    assert publish(door, "objects", payload) == {
        "status": "success",
        "message": "Message published to objects, partition 0",
    }
    assert consume(door, "objects", -1)["message"] == payload


def test_connections_that_are_reset_leave_nothing(node: ServedBroker, door: str) -> None:
    with no_leak(node.pid, node.address):
        for turn in range(300):
            peer = connect(door)
            peer.sendall(
                (b"", b"{", request("publish", "reset", 0, turn), b"\n" + request("consume", "reset"))[turn % 4]
            )
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
        assert publish(door, "reset", 1)["status"] == "success"


def test_two_thousand_connections_are_all_served(node: ServedBroker, door: str) -> None:
    before = rss_bytes(node.pid)
    with no_leak(node.pid, node.address), contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(Kept(door)) for _ in range(CROWD)]
        for place, peer in enumerate(crowd):
            peer.send(request("publish", "crowd", 0, place))
        assert all(json.loads(peer.line())["status"] == "success" for peer in crowd)
        found = []
        for place, peer in enumerate(crowd):
            peer.send(request("consume", "crowd", 0, offset=place))
            found.append(json.loads(peer.line())["message"])
        assert sorted(found) == list(range(CROWD))
        assert rss_bytes(node.pid) - before < 100 * MIB


def test_five_hundred_connections_one_after_the_other_leave_nothing(node: ServedBroker, door: str) -> None:
    with no_leak(node.pid, node.address):
        for number in range(500):
            assert publish(door, "serial", number, acks=1)["offset"] == number


def test_a_client_that_never_reads_its_replies_is_not_read_on(node: ServedBroker, door: str) -> None:
    with Peak(node.pid) as peak, Kept(door) as deaf:
        deaf.socket.settimeout(2)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 200 * MIB:
                sent += deaf.socket.send(b'{"type": "nonsense"}\n' * 1000)
        assert sent < 100 * MIB
        assert publish(door, "deaf", 1)["status"] == "success"
    assert peak.grown_bytes < 60 * MIB


def test_replies_that_nobody_takes_are_not_made(node: ServedBroker, door: str) -> None:
    """A hundred bytes ask for a megabyte: a few of such requests must not fill the memory."""
    assert publish(door, "heavy", "x" * 1_000_000)["status"] == "success"
    with Peak(node.pid) as peak, contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(Kept(door)) for _ in range(10)]
        for peer in crowd:
            peer.send(*(request("consume", "heavy") for _ in range(1000)))
        assert consume(door, "heavy")["status"] == "success"
        time.sleep(1)
        for _ in range(50):
            assert len(crowd[0].line()) > 1_000_000
    assert peak.grown_bytes < 150 * MIB


def test_a_document_whose_rest_does_not_come_is_given_up() -> None:
    with Broker() as broker, connect(broker.addresses["json"]) as half:
        half.sendall(b'{"type": ')
        publish(broker.addresses["json"], "other", 1)
        broker.settle()
        for _ in range(3):
            broker.clock.advance(20)
        assert rest(half) == b""


def test_one_connection_too_many_is_told_so(tmp_path: Path) -> None:
    with serving(tmp_path, "--json-max-connections", "3") as broker, contextlib.ExitStack() as stack:
        door = broker.addresses["json"]
        for _ in range(3):
            stack.enter_context(Kept(door)).ask(b"{}")
        assert json.loads(reply(door)) == {"status": "failure", "message": "too many connections"}


def test_what_was_replied_success_is_there_after_a_kill(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        door, count = broker.addresses["json"], 0
        for _ in range(3):
            deadline = time.monotonic() + 0.3
            with Kept(door) as kept:
                while time.monotonic() < deadline:
                    kept.send(*(request("publish", "kept", 0, number) for number in range(count, count + 10)))
                    assert all(json.loads(kept.line())["status"] == "success" for _ in range(10))
                    count += 10
            broker.kill()
            broker.start()
            door = broker.addresses["json"]
            assert [consume(door, "kept", at)["message"] for at in (0, count // 2, count - 1)] == [
                0,
                count // 2,
                count - 1,
            ]
            assert consume(door, "kept", -1)["message"] == count - 1
