"""Publish and subscribe, counted at the server: what a delivery costs, and how many commands are taken in a second.

Two loads, each a function that gives numbers:
- `fan_out`: one publisher, many subscribers of one topic. What counts is deliveries per second of the server's CPU.
- `commands`: many clients, each of which publishes `true` to the topics a to g in turn, as fast as it is let, and
  subscribes to `a`. What counts is commands per second, as the server counts them.

A load is bytes that were made before, and its subscribers let the kernel throw away what they get (MSG_TRUNC), so
that the loader does not take the processor from the server: what came is known by its size, since all deliveries
of a load are equally long. Before that, a small number of messages is read and compared byte for byte. The publisher
goes no further ahead of the slowest subscriber than a window, so nothing is lost, whatever a server does with slow
ones; should something be missing in the end, that is an error.

`python -m bench.fanout` measures a node of ours that it starts. A peer needs a `Protocol` and its process's number.
"""

from __future__ import annotations

import argparse
import os
import selectors
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from headrace.testing.served import ServedBroker

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
CHUNK_BYTES = 256 << 10  # of one write of a publisher
WINDOW_BYTES = 4 << 20  # that the slowest subscriber may be behind, in bytes of deliveries
READ_BYTES = 1 << 20
STALL_S = 20.0  # nothing moved for this long: something is missing
CHECKED = 1_000  # messages that are compared byte for byte
TOPICS = b"abcdefg"


class Missing(Exception):
    """A subscriber did not get what it should."""


@dataclass(frozen=True)
class Protocol:
    """How a broker is spoken to; topics and payloads are short."""

    name: str
    subscribe: Callable[[bytes], bytes]
    publish: Callable[[bytes, bytes], bytes]
    delivery: Callable[[bytes, bytes], bytes]
    greet: Callable[[socket.socket], None] = field(default=lambda link: None)


def _msgpack_text(content: bytes) -> bytes:
    assert len(content) < 32
    return bytes([0xA0 | len(content)]) + content


MSGPACK = Protocol(
    "msgpack",
    subscribe=lambda topic: b"\x81\xa9Subscribe\x91" + _msgpack_text(topic),
    publish=lambda topic, value: b"\x81\xa7Publish\x91\x92" + _msgpack_text(topic) + _msgpack_text(value),
    delivery=lambda topic, value: b"\x92" + _msgpack_text(topic) + _msgpack_text(value),
)


def _greet_nats(link: socket.socket) -> None:
    link.recv(1 << 16)  # INFO
    link.sendall(b'CONNECT {"verbose":false,"pedantic":false,"echo":true}\r\nPING\r\n')
    answer = b""
    while b"PONG\r\n" not in answer:
        answer += link.recv(1 << 16)


NATS = Protocol(
    "nats",
    subscribe=lambda topic: b"SUB %s 1\r\n" % topic,
    publish=lambda topic, value: b"PUB %s %d\r\n%s\r\n" % (topic, len(value), value),
    delivery=lambda topic, value: b"MSG %s 1 %d\r\n%s\r\n" % (topic, len(value), value),
    greet=_greet_nats,
)


@dataclass(frozen=True)
class Seen:
    messages: int  # published
    deliveries: int
    wall_s: float
    cpu_s: float  # of the server

    @property
    def per_second(self) -> float:
        return self.deliveries / self.wall_s

    @property
    def per_cpu_second(self) -> float:
        return self.deliveries / self.cpu_s

    @property
    def commands_per_second(self) -> float:
        return self.messages / self.wall_s


def cpu_s(pid: int) -> float:
    """User and system time of a process, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


class _Link:
    """A connection that counts what it gets, and sends the same chunk again and again."""

    def __init__(self, address: str, protocol: Protocol, topics: tuple[bytes, ...]) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), STALL_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocol.greet(self.socket)
        for topic in topics:
            self.socket.sendall(protocol.subscribe(topic))
        self.got_bytes = 0
        self._rest = memoryview(b"")

    def exactly(self, wanted: bytes) -> None:
        self.socket.settimeout(STALL_S)
        found = b""
        while len(found) < len(wanted):
            found += self.socket.recv(len(wanted) - len(found))
        if found != wanted:
            raise Missing(f"{found[:100]!r} came where {wanted[:100]!r} was published")

    def send(self, chunk: memoryview) -> int:
        """What the kernel takes of it; 1 for each time that all of it has gone."""
        rest = self._rest or chunk
        try:
            self._rest = rest[self.socket.send(rest) :]
        except BlockingIOError:
            return 0
        return 0 if self._rest else 1

    def drain(self, scratch: bytearray) -> None:
        with suppress(BlockingIOError):
            self.got_bytes += self.socket.recv_into(scratch, READ_BYTES, socket.MSG_TRUNC)


def fan_out(
    address: str, pid: int, protocol: Protocol = MSGPACK, subscribers: int = 30, messages: int = 2_000_000,
    value_bytes: int = 26,
) -> Seen:  # fmt: skip
    """One publisher, `subscribers` of one topic; `messages` is rounded up to whole chunks."""
    topic, value = b"a", b"x" * value_bytes
    one, delivery = protocol.publish(topic, value), protocol.delivery(topic, value)
    in_chunk = CHUNK_BYTES // len(one)
    chunk, chunks = memoryview(one * in_chunk), -(-messages // in_chunk)
    links = [_Link(address, protocol, (topic,)) for _ in range(subscribers)]
    publisher = _Link(address, protocol, ())
    time.sleep(0.3)  # subscriptions are not acknowledged
    publisher.socket.sendall(one * CHECKED)
    for link in links:
        link.exactly(delivery * CHECKED)
    began_cpu, began = cpu_s(pid), time.perf_counter()
    sent = 0
    chunk_out = in_chunk * len(delivery)
    with _watching(links) as ready:
        publisher.socket.setblocking(False)
        while sent < chunks:
            slowest = min(link.got_bytes for link in links)
            if (sent + 1) * chunk_out - slowest <= WINDOW_BYTES:
                sent += publisher.send(chunk)
                ready(0)
            else:
                ready(STALL_S)
        _until(lambda: all(link.got_bytes >= sent * chunk_out for link in links), links, ready)
    took, used = time.perf_counter() - began, cpu_s(pid) - began_cpu
    for link in (*links, publisher):
        link.socket.close()
    return Seen(sent * in_chunk, sent * in_chunk * subscribers, took, used)


def commands(address: str, pid: int, clients: int = 30, seconds: float = 5.0) -> Seen:
    """`clients` that publish and subscribe, for so many seconds; only commands that were done are counted."""
    one = b"".join(b"\x81\xa7Publish\x91\x92\xa1%c\xc3" % topic for topic in TOPICS)
    in_chunk = CHUNK_BYTES // len(one)
    chunk = memoryview(one * in_chunk)
    links = [_Link(address, MSGPACK, (b"a",)) for _ in range(clients)]
    time.sleep(0.3)
    done = [0] * clients
    began_cpu, began = cpu_s(pid), time.perf_counter()
    with _watching(links, writing=True) as ready:
        while time.perf_counter() - began < seconds:
            for link in ready(STALL_S):
                done[links.index(link)] += link.send(chunk)
        for number, link in enumerate(links):  # to the end of the chunk, so that whole commands are counted
            while link._rest:
                done[number] += link.send(chunk)
                ready(0)
        published = sum(done) * in_chunk
        _until(lambda: all(link.got_bytes >= published * len(b"\x92\xa1a\xc3") for link in links), links, ready)
    took, used = time.perf_counter() - began, cpu_s(pid) - began_cpu
    deliveries = sum(link.got_bytes for link in links) // len(b"\x92\xa1a\xc3")
    for link in links:
        link.socket.close()
    return Seen(published * len(TOPICS), deliveries, took, used)


@contextmanager
def _watching(links: list[_Link], writing: bool = False) -> Iterator[Callable[[float], list[_Link]]]:
    """A function that waits, takes what came, and gives the connections that can be written to."""
    scratch = bytearray(READ_BYTES)
    events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
    with selectors.DefaultSelector() as selector:
        for link in links:
            link.socket.setblocking(False)
            selector.register(link.socket, events, link)

        def ready(timeout_s: float) -> list[_Link]:
            writable = []
            for key, found in selector.select(timeout_s):
                if found & selectors.EVENT_READ:
                    key.data.drain(scratch)
                if found & selectors.EVENT_WRITE:
                    writable.append(key.data)
            return writable

        yield ready


def _until(is_done: Callable[[], bool], links: list[_Link], ready: Callable[[float], list[_Link]]) -> None:
    before, since = -1, time.perf_counter()
    while not is_done():
        ready(0.01)
        got = sum(link.got_bytes for link in links)
        if got != before:
            before, since = got, time.perf_counter()
        elif time.perf_counter() - since > STALL_S:
            raise Missing(f"{got} bytes came, and then nothing for {STALL_S:g} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--subscribers", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ServedBroker(Path(folder)) as broker:
        for _ in range(given.rounds):
            address = broker.addresses["msgpack"]
            seen = fan_out(address, broker.pid, MSGPACK, given.subscribers, given.messages)
            print(
                f"fan-out 1 x {given.subscribers}: {seen.per_second / 1e6:.1f} M deliveries/s, "
                f"{seen.per_cpu_second / 1e6:.1f} M per CPU second ({seen.cpu_s:.2f} s for {seen.deliveries:,})"
            )
            seen = commands(address, broker.pid, 30, given.seconds)
            print(
                f"30 clients: {seen.commands_per_second / 1e6:.2f} M commands/s, "
                f"{seen.per_second / 1e6:.1f} M deliveries/s, {seen.cpu_s / seen.wall_s:.0%} of a core"
            )


if __name__ == "__main__":
    main()
