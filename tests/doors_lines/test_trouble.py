"""Lines when the disk is full or fails, when a topic goes, when the node stops; and on topics in memory."""

from __future__ import annotations

import time
from pathlib import Path

from headrace.testing.broker import Broker
from headrace.testing.served import ServedBroker
from tests.doors_lines.kit import Peer, peers
from tests.support import assert_no_fault


def texts(peer: Peer, line: bytes) -> list[bytes]:
    return [one.text for one in peer.history(line)]


def test_a_full_disk_is_told_and_publishing_goes_on_when_there_is_space() -> None:
    with Broker() as broker, Peer(broker.addresses["lines"]) as peer:
        assert peer.ask(b"PUB full 1") == b"OK published"
        broker.fill_disk()
        peer.send(b"PUB full 2\nPUB full 3\nPING\n")
        for line in peer.lines(2):
            assert line.startswith(b"ERR DiskFull: ")
        assert peer.line() == b"OK pong"
        broker.free_disk()
        assert peer.ask(b"PUB full 4") == b"OK published"
        assert texts(peer, b"HISTORY full 0") == [b"1", b"4"]


def test_a_sync_that_failed_is_not_answered_ok() -> None:
    with Broker() as broker, Peer(broker.addresses["lines"]) as peer:
        assert peer.ask(b"PUB doubt 1") == b"OK published"
        broker.fail_sync(1, path="doubt")
        assert peer.ask(b"PUB doubt 2").startswith(b"ERR StorageFailed: ")
        assert peer.ask(b"PING") == b"OK pong"
        broker.heal()
        broker.clock.advance(20)  # its recovery
        deadline = time.monotonic() + 20
        while peer.ask(b"PUB doubt 3") != b"OK published":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert texts(peer, b"HISTORY doubt 1") == [b"3"]


def test_a_topic_in_memory_is_published_to_subscribed_and_read_like_any_other(broker: Broker, lines: str) -> None:
    broker.create_topic("ring", 1, {"headrace.storage": "memory"})
    with peers(lines, 3) as (plain, member, publisher):
        plain.ask(b"SUB ring")
        member.ask(b"SUB ring g")
        publisher.send(b"PUB ring 1\nPUB ring 2\n")
        assert publisher.lines(2) == [b"OK published"] * 2
        found = [plain.message(), plain.message()]
        assert [one.text for one in found] == [b"1", b"2"]
        assert member.texts(2) == [b"1", b"2"]
        assert [one[2:] for one in publisher.history(b"HISTORY ring 0")] == [one[2:] for one in found]
        assert texts(publisher, b"RANGE ring %d %d" % (found[1].offset, found[1].offset)) == [b"2"]


def test_a_topic_that_is_deleted_ends_what_is_told_of_it(broker: Broker, lines: str) -> None:
    with Peer(lines) as peer:
        for _ in range(20):
            peer.send(b"".join(b"PUB doomed %b\n" % (b"x" * 50_000) for _ in range(20)))
            peer.lines(20)
        peer.send(b"HISTORY doomed 0\nPING\n")
        peer.line()
        broker.delete_topic("doomed")
        told = []
        while not (line := peer.line()).startswith((b"OK history end", b"ERR ")):
            told.append(line)
        assert len(told) <= 400
        assert peer.line() == b"OK pong"
        assert texts(peer, b"HISTORY doomed 0") == []


def test_a_node_that_stops_answers_what_it_took_and_does_not_wait_for_who_reads_nothing(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        address = broker.addresses["lines"]
        with peers(address, 4) as (stalled, member, publisher, idle):
            for _ in range(10):
                publisher.send(b"".join(b"PUB last %b\n" % (b"x" * 50_000) for _ in range(20)))
                publisher.lines(20)
            stalled.send(b"HISTORY last 0\n")
            member.ask(b"SUBACK last g")
            publisher.send(b"PUB last y\n")
            assert publisher.line() == b"OK published"
            begin = time.monotonic()
            assert broker.stop() == 0
            assert time.monotonic() - begin < 20
            assert idle.rest() == publisher.rest() == b""
        broker.start()
        with Peer(broker.addresses["lines"]) as peer:
            peer.send(b"SUBACK last g\n")
            assert peer.line().startswith(b"OK ")
            assert peer.message().text == b"y"
    assert_no_fault(broker)
