"""A stop in the middle of everything: what was taken is answered, what was acknowledged is there, and it does not
take long."""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from pathlib import Path

import pytest

from headrace.wire.kafka import header, produce_client
from tests.support import MIB, PRODUCE_VERSION, Closed, Wire, batch_of, serving, wait_until

IN_FLIGHT = 200
SOON_S = 4.0  # less than the time after which a stop gives up waiting


class Flood:
    """A producer that never stops by itself, with IN_FLIGHT requests out, and remembers what was acknowledged."""

    def __init__(self, address: str, topic: str, acks: int, size: int = 100) -> None:
        self.acknowledged: list[int] = []
        self._may_send = threading.Semaphore(IN_FLIGHT)
        self._wire = Wire(address)
        self._wire.create_topic(topic)
        self._topic, self._acks, self._batch = topic, acks, batch_of([b"x" * size])
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        with contextlib.suppress(Closed, OSError):
            while self._may_send.acquire(timeout=10):
                self._wire.send_produce(self._topic, self._batch, acks=self._acks)

    def _receive(self) -> None:
        with contextlib.suppress(Closed, OSError):
            while True:
                _, result = self._wire.receive_produced()
                assert result.error == 0
                self.acknowledged.append(result.base_offset)
                self._may_send.release()
        self._may_send.release(IN_FLIGHT)  # so that the sender, too, sees the end

    def join(self) -> None:
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()
        self._wire.close()


@pytest.mark.parametrize("acks", [1, -1])
def test_a_stop_under_load_is_soon_and_keeps_what_was_acknowledged(tmp_path: Path, acks: int) -> None:
    with serving(tmp_path) as node:
        floods = [Flood(node.address, f"flood-{n}", acks) for n in range(3)]
        wait_until(lambda: all(len(flood.acknowledged) > 50 for flood in floods))
        begin = time.monotonic()
        assert node.stop() == 0
        assert time.monotonic() - begin < SOON_S
        for flood in floods:
            flood.join()
        node.start()
        with Wire(node.address) as wire:
            for number, flood in enumerate(floods):
                kept = wire.fetch(f"flood-{number}", 0, max_wait_ms=0).high_watermark
                assert flood.acknowledged == list(range(len(flood.acknowledged)))
                assert kept >= len(flood.acknowledged)


def test_requests_that_were_taken_before_the_stop_are_answered(tmp_path: Path) -> None:
    with serving(tmp_path) as node, Wire(node.address) as wire, Wire(node.address) as polling:
        wire.create_topic("taken")
        wire.produce("taken", batch_of([b"first"]))
        poll = polling.send_fetch("taken", {0: 1}, max_wait_ms=60_000)
        topics = [("taken", None, [(0, batch_of([b"x" * 100]))])]
        frames = [
            piece
            for asked in range(200)
            for piece in produce_client.encode_request(PRODUCE_VERSION, asked, "x", None, -1, 30_000, topics)
        ]
        wire.send(*frames)
        assert wire.receive_produced()[0] == 0  # the others were in the same read
        begin = time.monotonic()
        assert node.stop() == 0
        assert time.monotonic() - begin < SOON_S
        for asked in range(1, 200):
            answered, result = wire.receive_produced()
            assert (answered, result.error) == (asked, 0)
        assert wire.is_closed()
        assert polling.receive_fetched()[0] == poll, "who waits for records is told that there are none"
        assert polling.is_closed()


def test_a_stop_does_not_wait_for_clients_that_are_idle_stuck_or_in_the_middle(tmp_path: Path) -> None:
    with serving(tmp_path) as node, contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(node.address)) for _ in range(50)]
        for number, wire in enumerate(wires):
            wire.ping()
            if number % 3 == 1:
                wire.send(struct.pack(">i", 100) + b"half")
            elif number % 3 == 2:
                wire.send(struct.pack(">i", 50 * MIB) + bytes(100_000))
        begin = time.monotonic()
        assert node.stop() == 0
        assert time.monotonic() - begin < SOON_S
        assert all(wire.is_closed() for wire in wires)


def test_a_stop_ends_though_a_client_never_takes_its_answers(tmp_path: Path) -> None:
    with serving(tmp_path) as node, Wire(node.address, receive_bytes=4096) as wire:
        wire.create_topic("untaken")
        for _ in range(30):
            wire.produce("untaken", batch_of([b"x" * 1_000_000]))
        wire.send_fetch("untaken", {0: 0})
        time.sleep(0.3)
        begin = time.monotonic()
        assert node.stop() == 0
        assert time.monotonic() - begin < 10


def test_a_stop_while_topics_are_made_keeps_those_that_were_acknowledged(tmp_path: Path) -> None:
    made: list[str] = []

    def make(address: str, prefix: str) -> None:
        with contextlib.suppress(Closed, OSError), Wire(address) as wire:
            while True:
                wire.create_topic(f"{prefix}-{len(made)}", partitions=3)
                made.append(f"{prefix}-{len(made)}")

    with serving(tmp_path) as node:
        thread = threading.Thread(target=make, args=(node.address, "made"))
        thread.start()
        wait_until(lambda: len(made) > 5)
        assert node.stop() == 0
        thread.join(10)
        assert not thread.is_alive()
        node.start()
        with Wire(node.address) as wire:
            for topic in made:
                assert wire.fetch(topic, 0, partition=2, max_wait_ms=0).error == 0


def test_connects_during_the_stop_are_refused_or_closed(tmp_path: Path) -> None:
    with serving(tmp_path) as node:
        flood = Flood(node.address, "flood", 1)
        wait_until(lambda: len(flood.acknowledged) > 50)
        ended = threading.Event()

        def connect() -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError, Closed), Wire(node.address, limit_s=2) as wire:
                    wire.send(header.question(header.API_VERSIONS, 0, 1, "x", b""))
                    wire.receive()

        threads = [threading.Thread(target=connect) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert node.stop() == 0
        ended.set()
        for thread in threads:
            thread.join(10)
        flood.join()
