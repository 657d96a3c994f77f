"""A Kafka door's address where that of another door was meant: it is told, soon, and nobody else is asked."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from headrace.cli import exits
from headrace.cli.speaking import lines
from headrace.testing import Broker
from headrace.testing.served import ServedBroker
from tests.cli.running import Run

COMMANDS = (("publish", "t", "x"), ("subscribe", "t", "--count", "1"), ("history", "t"))
QUICK_S = 10.0  # a third of what a command waits for an answer
LATE_S = 1.0
THIS_ONE = "publish, subscribe and history speak to this one with --door kafka"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.mark.parametrize("door", ["lines", "binary", "json", "http"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_kafka_door_that_is_taken_for_another_one_is_told_within_seconds(
    run: Run, broker: Broker, command: tuple[str, ...], door: str
) -> None:
    kafka = broker.addresses["kafka"]
    begin = time.monotonic()
    ended = run("-s", kafka, *command, "--door", door)
    assert time.monotonic() - begin < QUICK_S
    assert (ended.code, ended.out) == (exits.USAGE, "")
    assert ended.err.splitlines() == [
        f"headrace: {kafka} is a Kafka door, and no {door} door",
        f"  try: -s {broker.addresses[door]}, its {door} door; {THIS_ONE}",
    ]
    assert broker.topics() == {}


@pytest.mark.parametrize("command", [("subscribe", "t", "--door", "msgpack"), ("log-metrics",)])
def test_who_listens_by_msgpack_at_a_kafka_door_is_told(run: Run, broker: Broker, command: tuple[str, ...]) -> None:
    ended = run("-s", broker.addresses["kafka"], *command)
    assert ended.code == exits.USAGE
    assert f"-s {broker.addresses['msgpack']}, its msgpack door" in ended.err


def test_a_kafka_door_of_a_server_without_the_wanted_door_tells_which_it_has(run: Run, tmp_path: Path) -> None:
    with ServedBroker(tmp_path, "--json", "off") as served:
        ended = run("-s", served.address, "publish", "t", "x", "--door", "json")
    assert ended.code == exits.NOT_FOUND and f"{served.address} has no json door" in ended.err


def test_a_kafka_door_that_tells_of_no_doors_is_told(run: Run, kafka_address: str) -> None:
    ended = run("-s", kafka_address, "history", "t")
    assert ended.err.splitlines() == [
        f"headrace: {kafka_address} is a Kafka door, and no lines door",
        f"  try: {THIS_ONE}",
    ]


def test_a_lines_server_that_greets_late_is_asked_once_what_it_is_and_waited_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "SILENCE_S", LATE_S / 4)
    with LateLines() as late:
        assert run("-s", late.address, "publish", "t", "x").out == "OK published\n"
    asked = [came for came in late.heard if not came.startswith((b"PUB", b"QUIT"))]
    assert len(asked) == 1 and b"\n" not in asked[0]  # a line that never ends is no command


def test_a_server_that_answers_as_its_door_does_is_never_asked_what_it_is(run: Run) -> None:
    with LateLines(late_s=0) as prompt:
        assert run("-s", prompt.address, "publish", "t", "x").out == "OK published\n"
    assert [came.split(b" ")[0] for came in prompt.heard] == [b"PUB"]


class LateLines:
    """A server of lines that greets so late, and keeps what each connection sent."""

    def __init__(self, late_s: float = LATE_S) -> None:
        self.heard: list[bytes] = []
        self._late_s, self._threads = late_s, list[threading.Thread]()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *why: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join()

    def _start(self, work: Callable[..., None], *given: object) -> None:
        self._threads.append(threading.Thread(target=work, args=given))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed: that was all
            while True:
                self._start(self._serve, self._listening.accept()[0])

    def _serve(self, wire: socket.socket) -> None:
        came = b""
        with wire, contextlib.suppress(OSError):
            time.sleep(self._late_s)
            wire.sendall(b"OK connected\n")
            while data := wire.recv(1 << 16):
                came += data
                if data.startswith(b"PUB"):
                    wire.sendall(b"OK published\n")
        self.heard.append(came)
