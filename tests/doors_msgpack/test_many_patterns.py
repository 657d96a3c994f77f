"""Ten thousand topics and ten thousand patterns of one client, or a name of a megabyte: whatever is done with them,
others are answered."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from headrace.doors.msgpack.limits import MAX_PATTERNS
from headrace.testing.served import ServedBroker
from tests.doors_lines.kit import Peer
from tests.doors_msgpack.kit import Raw, delivery, publish, subscribe, unsubscribe
from tests.support import cpu_s, serving

TRUE = b"\xc3"
TOPICS = 9_900  # there is room for some more
PATTERNS = MAX_PATTERNS - 10
LONG_S = 120.0

# Of the node's own work, whatever else the machine does: milliseconds and tens of them. What these are to find took
# seconds, and half a minute.
MEDIAN_S, WORST_S = 0.1, 1.0

CLASSES: dict[str, Callable[[int], str]] = {
    "literal": lambda n: f"site/{n}/sensor-{n}/end",
    "prefix": lambda n: f"site/{n}/*",
    "suffix": lambda n: f"*-{n}/end",
    "inner": lambda n: f"*/{n}/*",
    "one character": lambda n: f"?ite/{n}/sensor-{n}/?nd",
    "mixed": lambda n: f"s*te/{n}/?ensor*nd",
    "everything": lambda n: "site" + "".join("?*"[int(bit)] for bit in f"{n:014b}") + "*",
}


def name(number: int) -> str:
    return f"site/{number}/sensor-{number}/end"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with serving(Path(tmp_path_factory.mktemp("node"))) as broker:
        with Raw(broker.addresses["msgpack"]) as client:
            client.socket.settimeout(LONG_S)
            client.send(*(publish(name(number), TRUE) for number in range(TOPICS)))
            client.in_order()
        yield broker


class Pings:
    """A client at another door, which asks all the time, and how long the node worked before each answer came."""

    def __init__(self, node: ServedBroker) -> None:
        self._pid = node.pid
        self._peer, self._times, self._is_over = Peer(node.addresses["lines"]), [0.0], False
        self._peer.socket.settimeout(LONG_S)
        self._thread = threading.Thread(target=self._run, name="pings", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over:
            began = cpu_s(self._pid)
            self._peer.send(b"PING\n")
            assert self._peer.line() == b"OK pong"
            self._times.append(cpu_s(self._pid) - began)
            time.sleep(0.002)

    def check(self, what: str) -> None:
        asked = len(self._times)
        while len(self._times) < asked + 2:  # the one that waits meanwhile counts
            time.sleep(0.002)
            assert self._thread.is_alive()
        times, self._times = self._times, [0.0]
        assert statistics.median(times) < MEDIAN_S, what
        assert max(times) < WORST_S, what

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._thread.join()
        self._peer.socket.close()


@pytest.mark.parametrize("kind", CLASSES)
def test_others_are_answered_while_one_client_has_ten_thousand_patterns(kind: str, node: ServedBroker) -> None:
    pattern, address = CLASSES[kind], node.addresses["msgpack"]
    with Pings(node) as pings, Raw(address) as publisher:
        publisher.socket.settimeout(LONG_S)
        with Raw(address) as client:
            client.socket.settimeout(LONG_S)
            client.send(*(subscribe(pattern(number)) for number in range(PATTERNS)))
            client.in_order()
            pings.check("subscribe")
            publisher.send(*(publish(name(number), TRUE) for number in range(TOPICS)))
            wanted = {delivery(name(number), TRUE) for number in range(TOPICS)}
            found = client.exactly(sum(map(len, wanted)))
            assert {b"\x92" + one for one in found.split(b"\x92")[1:]} == wanted
            client.expect_nothing()
            pings.check("publish")
            for number in range(200):
                other = f"other-{number}-*"
                publisher.send(subscribe(other), publish(name(number), TRUE), unsubscribe(other))
            publisher.in_order()
            pings.check("a pattern more, a publish, a pattern less")
            client.send(*(unsubscribe(pattern(number)) for number in range(0, PATTERNS, 2)))
            client.in_order()
            pings.check("unsubscribe")
        pings.check("disconnect")
        publisher.expect_nothing()
        pings.check("afterwards")


MEGABYTE = 1_000_000 - len(publish("x" * (1 << 16), TRUE)) + (1 << 16)  # of a name, with which a command is the largest

LONG_NAMES: dict[str, tuple[list[str], str]] = {
    "one pattern": (["*a?b*"], "ab" * (MEGABYTE // 2)),
    "as many as there may be": ([f"*/{n}/?ensor*" for n in range(MAX_PATTERNS - 10)], "/7/" * (MEGABYTE // 3)),
    "a long one": (["*" + "a?" * 30_000 + "b*"], "a" * (MEGABYTE - 1) + "b"),
}


@pytest.mark.parametrize("kind", LONG_NAMES)
def test_others_are_answered_while_who_wants_a_name_of_a_megabyte_is_looked_for(kind: str, node: ServedBroker) -> None:
    texts, long = LONG_NAMES[kind]
    address = node.addresses["msgpack"]
    with Pings(node) as pings, Raw(address) as client, Raw(address) as other, Raw(address) as publisher:
        for one in (client, other, publisher):
            one.socket.settimeout(LONG_S)
        client.send(*map(subscribe, texts))
        client.in_order()
        other.send(subscribe(long[:1] + "*" + long[-3:]))
        other.in_order()
        pings.check("subscribe")
        publisher.send(publish(long, TRUE), publish(long[:1] + "-" + long[-3:], TRUE))
        other.expect(delivery(long, TRUE), delivery(long[:1] + "-" + long[-3:], TRUE))
        publisher.in_order()
        pings.check("publish")
        client.expect_nothing()


def test_a_name_of_a_megabyte_comes_in_its_order_to_who_subscribed(node: ServedBroker) -> None:
    long = "/7/" * (MEGABYTE // 3)
    with Raw(node.addresses["msgpack"]) as client, Raw(node.addresses["msgpack"]) as gone:
        # Of no order with what the other sends: so it is nothing that the other waits for.
        gone.send(subscribe("/8*"), publish(long.replace("7", "8"), TRUE))
        gone.socket.close()
        for pattern in ("/?/*7*", long[:-1] + "?", long):
            client.send(subscribe(pattern), publish(long, TRUE), unsubscribe(pattern), publish(long, b"\xc0"))
            client.expect(delivery(long, TRUE))
        client.expect_nothing()
        client.send(subscribe("*"), publish(long, TRUE), b"\xc1")
        client.expect(delivery(long, TRUE))
        assert client.ends()
