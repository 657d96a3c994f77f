"""Lines from strangers: garbage, oversize, silence, slowness and crowds. Bounds hold, others are served."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.broker import Broker
from headrace.testing.served import ServedBroker
from tests.doors_lines.kit import LIMIT_S, Peer, peers
from tests.support import MIB, Peak, no_leak, rss_bytes, serving, wait_until

CROWD = 2000
SUBSCRIBERS = 100
BURST = 400  # messages of 60 KB: more than a slow connection and its socket hold


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with serving(tmp_path_factory.mktemp("lines")) as broker:
        yield broker


@pytest.fixture
def lines(node: ServedBroker) -> str:
    return node.addresses["lines"]


def test_garbage_costs_nobody_anything(node: ServedBroker, lines: str) -> None:
    chance = random.Random(11)
    with no_leak(node.pid, node.address), Peer(lines) as bystander:
        for _ in range(200):
            with Peer(lines) as peer, contextlib.suppress(ConnectionError):
                peer.send(chance.randbytes(chance.randrange(1, 3000)))
                if chance.random() < 0.5:
                    peer.send(b"\n" + b"".join(chance.choices((b"PUB ", b"SUB ", b"\n", b"\x00", b"ACK x"), k=50)))
        assert bystander.ask(b"PING") == b"OK pong"


def test_a_line_without_end_is_cut_off_and_its_memory_given_back(node: ServedBroker, lines: str) -> None:
    with no_leak(node.pid, node.address), Peak(node.pid) as peak:
        for _ in range(20):
            with Peer(lines) as peer, contextlib.suppress(ConnectionError):
                for _ in range(100):
                    peer.send(b"x" * 64_000)
                assert peer.rest() == b""
    assert peak.grown_bytes < 30 * MIB


def test_connections_that_are_reset_leave_nothing(node: ServedBroker, lines: str) -> None:
    with no_leak(node.pid, node.address), Peer(lines) as bystander:
        for turn in range(300):
            peer = Peer(lines)
            peer.send((b"SUB reset\n", b"SUB reset g\n", b"PUB reset x\n" * 50, b"HISTORY reset 0\n")[turn % 4])
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.socket.close()
        assert bystander.ask(b"PING") == b"OK pong"


def test_two_thousand_connections_are_all_served(node: ServedBroker, lines: str) -> None:
    before = rss_bytes(node.pid)
    with no_leak(node.pid, node.address), peers(lines, CROWD) as crowd:
        for peer in crowd:
            peer.send(b"SUB crowd\n")
        assert all(peer.line() == b"OK subscribed crowd" for peer in crowd)
        with Peer(lines) as publisher:
            publisher.send(b"".join(b"PUB crowd %d\n" % number for number in range(5)))
            assert publisher.lines(5) == [b"OK published"] * 5
        for peer in crowd:
            assert peer.texts(5) == [b"0", b"1", b"2", b"3", b"4"]
        assert rss_bytes(node.pid) - before < 100 * MIB


def test_one_group_of_many_members_shares_what_comes(lines: str) -> None:
    with peers(lines, 300) as members, Peer(lines) as publisher:
        for member in members:
            member.ask(b"SUB shared g")
        publisher.send(b"".join(b"PUB shared %d\n" % number for number in range(900)))
        publisher.lines(900)
        got = [member.texts(3) for member in members]
        assert got == [[b"%d" % (place + turn * 300) for turn in range(3)] for place in range(300)]


def test_a_stalled_subscriber_among_a_hundred_delays_nobody_and_loses_nothing(node: ServedBroker, lines: str) -> None:
    text = b"s" * 60_000
    with Peak(node.pid) as peak, peers(lines, SUBSCRIBERS) as (stalled, *others), Peer(lines) as publisher:
        for peer in (stalled, *others):
            peer.ask(b"SUB stalled")
        readers = [threading.Thread(target=peer.texts, args=(BURST,)) for peer in others]
        for reader in readers:
            reader.start()
        worst = 0.0
        for _ in range(BURST):
            begin = time.monotonic()
            assert publisher.ask(b"PUB stalled " + text) == b"OK published"
            worst = max(worst, time.monotonic() - begin)
        for reader in readers:
            reader.join(LIMIT_S)
            assert not reader.is_alive()
        assert worst < 3.0
        found = [stalled.message() for _ in range(BURST)]  # what it could not take waited in the log
        assert [one.offset for one in found] == list(range(1, BURST + 1))
    assert peak.grown_bytes < 150 * MIB


def test_a_member_that_stalls_leaves_its_share_to_the_others(lines: str) -> None:
    text = b"s" * 60_000
    with peers(lines, 2) as (stalled, eager), Peer(lines) as publisher:
        stalled.ask(b"SUBACK slow g")
        eager.ask(b"SUBACK slow g")
        for number in range(300):
            assert publisher.ask(b"PUB slow %d-%b" % (number, text)) == b"OK published"
        got = 0
        eager.socket.settimeout(3)
        with contextlib.suppress(TimeoutError):
            while True:
                line = eager.line()
                if line.startswith(b"MSG "):
                    got += 1
                    eager.send(b"ACK %b\n" % line.split(b" ", 3)[2])
        assert got >= 200  # the stalled one has at most a hundred


def test_a_long_history_goes_at_the_pace_of_who_reads_it(node: ServedBroker, lines: str) -> None:
    with Peer(lines) as publisher:
        for _ in range(10):
            publisher.send(b"".join(b"PUB tale %b\n" % (b"x" * 10_000) for _ in range(400)))
            publisher.lines(400)
        with Peak(node.pid) as peak, peers(lines, 8) as readers:
            for reader in readers:
                reader.send(b"HISTORY tale 0\nPING\n")
            time.sleep(1)  # nobody reads
            for reader in readers:
                assert len(reader.until(b"OK history end")) == 4000
                assert reader.line() == b"OK pong"
        assert peak.grown_bytes < 100 * MIB


def test_what_waits_behind_a_history_that_nobody_reads_takes_little_memory(node: ServedBroker, lines: str) -> None:
    with Peer(lines) as publisher:
        for _ in range(10):
            publisher.send(b"".join(b"PUB blocked %b\n" % (b"x" * 50_000) for _ in range(20)))
            publisher.lines(20)
    with Peak(node.pid) as peak, peers(lines, 50) as crowd:
        for peer in crowd:
            peer.send(b"HISTORY blocked 0\n")
        for peer in crowd:
            peer.socket.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                peer.send(b"PING\n" * 50_000)
        time.sleep(1)
        reader = crowd[7]
        reader.socket.settimeout(LIMIT_S)
        assert len(reader.until(b"OK history end")) == 200
        assert reader.lines(1000) == [b"OK pong"] * 1000
    assert peak.grown_bytes < 200 * MIB


def test_a_client_that_never_reads_its_replies_is_not_read_on(node: ServedBroker, lines: str) -> None:
    with Peak(node.pid) as peak, Peer(lines) as deaf:
        deaf.socket.settimeout(2)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 200 * MIB:
                sent += deaf.socket.send(b"bad command that is answered\n" * 1000)
        assert sent < 100 * MIB
        with Peer(lines) as other:
            assert other.ask(b"PING") == b"OK pong"
    assert peak.grown_bytes < 60 * MIB


def test_a_silent_connection_is_closed_when_the_door_is_told_to(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--lines-idle-ms", "4000") as broker,
        Peer(broker.addresses["lines"]) as idle,
        Peer(broker.addresses["lines"]) as busy,
    ):
        for _ in range(12):
            time.sleep(0.5)
            assert busy.ask(b"PING") == b"OK pong"
        assert idle.rest() == b""


def test_a_line_whose_rest_does_not_come_is_given_up() -> None:
    with Broker() as broker, peers(broker.addresses["lines"], 2) as (half, whole):
        half.send(b"PUB half ")
        whole.ask(b"PING")
        broker.settle()
        for _ in range(3):  # the sweep sees that nothing moved, and then for how long
            broker.clock.advance(20)
        assert half.rest() == b""
        assert whole.ask(b"PING") == b"OK pong"


def test_one_connection_too_many_is_told_so(tmp_path: Path) -> None:
    with serving(tmp_path, "--lines-max-connections", "5") as broker:
        address = broker.addresses["lines"]
        with peers(address, 5) as inside:
            with Peer(address, greeted=False) as outside:
                assert outside.rest() == b"ERR too many connections\n"
            inside[0].socket.close()
            wait_until(lambda: _is_welcome(address))
            assert inside[1].ask(b"PING") == b"OK pong"


def test_a_connection_has_a_bounded_number_of_subscriptions(lines: str) -> None:
    with Peer(lines) as peer:
        peer.send(b"".join(b"SUB many-%d\n" % number for number in range(1001)))
        assert peer.lines(1000) == [b"OK subscribed many-%d" % number for number in range(1000)]
        assert peer.line() == b"ERR LimitReached: a connection has at most 1000 subscriptions"
        assert peer.ask(b"SUB many-7") == b"OK subscribed many-7"


def _is_welcome(address: str) -> bool:
    with Peer(address, greeted=False) as peer:
        return peer.line() == b"OK connected"
