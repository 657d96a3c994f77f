"""Histories of large records: all of them come, and who does not take them costs the node a page, not all of them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from tests.doors_lines.kit import LIMIT_S, Peer
from tests.support import MIB, ServedBroker, rss_bytes, serving

COUNT, SIZE = 80, 1_000_000
STALLED = 12
HELD_BYTES = 8 * MIB  # for one who stalls: what waits to be sent (1 MiB), a page, and the page as text and as bytes
LOOK_S = 2.0  # in which a node that kept everything would have read it all


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with serving(tmp_path_factory.mktemp("node"), "--lines", "127.0.0.1:0") as broker:
        producer = Producer({"bootstrap.servers": broker.addresses["kafka"], "message.max.bytes": 2 * SIZE})
        for number in range(COUNT):
            producer.produce("large", b"%03d" % number + b"x" * (SIZE - 3))
            producer.flush(LIMIT_S)
        yield broker


@pytest.mark.parametrize("asked", ["HISTORY large 80", "HISTORY large 0", "HISTORY large 1000", "RANGE large 1 80"])
def test_all_of_a_large_history_comes(node: ServedBroker, asked: str) -> None:
    with Peer(node.addresses["lines"]) as peer:
        peer.send(asked.encode() + b"\n")
        for number in range(COUNT):
            shown = peer.message()
            assert (shown.offset, shown.text[:3], len(shown.text)) == (number + 1, b"%03d" % number, SIZE)
        assert peer.line() == b"OK history end"


def test_the_last_of_a_large_history_are_the_last(node: ServedBroker) -> None:
    with Peer(node.addresses["lines"]) as peer:
        found = peer.history(b"HISTORY large 70")
        assert [one.offset for one in found] == list(range(COUNT - 70 + 1, COUNT + 1))


def test_who_stalls_in_a_large_history_costs_a_page_and_gets_all_of_it_later(node: ServedBroker) -> None:
    with Peer(node.addresses["lines"]) as peer:  # what is read once is warm
        assert len(peer.history(b"HISTORY large 80")) == COUNT
    before = rss_bytes(node.pid)
    with ExitStack() as open_:
        stalled = [open_.enter_context(Peer(node.addresses["lines"])) for _ in range(STALLED)]
        for peer in stalled:
            peer.send(b"HISTORY large 80\n")
        for peer in stalled:
            assert peer.socket.recv(1, socket.MSG_PEEK)  # it has begun
        until, most = time.monotonic() + LOOK_S, 0
        while time.monotonic() < until:
            most = max(most, rss_bytes(node.pid))
            time.sleep(0.05)
        assert most - before < STALLED * HELD_BYTES, f"{(most - before) / MIB:.0f} MiB more"
        with Peer(node.addresses["lines"]) as other:  # nobody else waits
            assert other.ask(b"PING") == b"OK pong"
        assert len([stalled[0].message() for _ in range(COUNT)]) == COUNT
        assert stalled[0].line() == b"OK history end"
