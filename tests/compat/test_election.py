"""Lines of the election that brokers of the HTTP protocol hold among themselves, sent to each of our ports by one that
still believes in it: they are refused in the door's own words, or the connection is closed; nothing comes of them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from headrace.compat import HttpClient
from headrace.testing import Broker

LIMIT_S = 20.0
ELECTION = b'{"type": "ELECTION", "from": 1}\n'
OK = b'{"type": "OK", "from": 3}\n'
COORDINATOR = bytes.fromhex(
    "7b2274797065223a2022434f4f5244494e41544f52222c20226c6561646572223a20332c202266726f6d223a20337d0a"
)
HEARTBEAT = b'{"type": "HEARTBEAT", "from": 3}\n'
LINES = (ELECTION, OK, COORDINATOR, HEARTBEAT)
DOORS = ("kafka", "binary", "lines", "json", "http", "msgpack")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def told(address: str, sent: bytes) -> bytes:
    """All that comes back. As the originals do, nothing is said after the line."""
    host, _, port = address.rpartition(":")
    found = b""
    with socket.create_connection((host, int(port)), LIMIT_S) as to, contextlib.suppress(ConnectionError):
        to.sendall(sent)
        to.shutdown(socket.SHUT_WR)
        while data := to.recv(1 << 16):  # until the door closes, which it does: else this is a timeout
            found += data
    return found


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("line", LINES, ids=("election", "ok", "coordinator", "heartbeat"))
def test_an_election_line_is_refused_and_leaves_nothing(broker: Broker, door: str, line: bytes) -> None:
    answer = told(broker.addresses[door], line)
    match door:
        case "lines":
            assert answer == b"OK connected\nERR unknown command: " + line
        case "json":
            assert answer == b'{"status": "failure", "message": "Unknown request type"}'
        case "http":
            assert answer.startswith(b"HTTP/1.1 400 ")
        case _:
            assert answer == b""
    assert set(broker.topics()) <= {"after"}


@pytest.mark.parametrize("door", DOORS)
def test_a_storm_of_them_does_no_harm_to_a_door(broker: Broker, door: str) -> None:
    for _ in range(50):
        told(broker.addresses[door], COORDINATOR * 20)
    assert told(broker.addresses["lines"], b"PING\nQUIT\n") == b"OK connected\nOK pong\nOK bye\n"
    with HttpClient(broker.http) as client:
        assert client.leader()["this_broker_is_leader"] is True
    broker.produce("after", door)
    assert broker.values("after")[-1] == door.encode()
    sent = b'{"type": "consume", "topic_name": "t", "partition": 0, "payload": null, "offset": 0}'
    assert told(broker.addresses["json"], sent) == b'{"status": "failure", "message": "No message available"}'
