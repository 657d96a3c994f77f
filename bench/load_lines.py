"""Loads for the lines door: raw sockets and lines made beforehand, so that what is measured is the server.

- `publish_rate`: messages one after the other without waiting for replies (which are read and counted).
- `deliver_rate`: the same with one subscriber; until it has them all.
- `latency`: one message at a time at a given rate; seconds from its sending to its reply.
"""

from __future__ import annotations

import socket
import threading
import time

CHUNK_BYTES = 256 << 10  # sent at once: what a busy client's buffer holds


class _Link:
    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.read_lines(1)  # the greeting

    def ask(self, line: bytes) -> None:
        self.socket.sendall(line)
        self.read_lines(1)

    def read_lines(self, count: int) -> None:
        """Counts lines by their ends alone."""
        while count > 0:
            count -= self.socket.recv(1 << 20).count(b"\n")


def _topic() -> bytes:
    return b"lines-%d" % time.monotonic_ns()


def _publish(address: str, topic: bytes, messages: int, value_bytes: int) -> None:
    link = _Link(address)
    one = b"PUB %b %b\n" % (topic, b"x" * value_bytes)
    chunk = max(1, CHUNK_BYTES // len(one))
    reader = threading.Thread(target=link.read_lines, args=(messages,))
    reader.start()
    left, whole = messages, one * chunk
    while left:
        count = min(chunk, left)
        link.socket.sendall(whole if count == chunk else one * count)
        left -= count
    reader.join()
    link.socket.close()


def publish_rate(address: str, messages: int, value_bytes: int) -> float:
    """Seconds until all are acknowledged."""
    topic = _topic()
    _Link(address).ask(b"PUB %b first\n" % topic)
    began = time.perf_counter()
    _publish(address, topic, messages, value_bytes)
    return time.perf_counter() - began


def deliver_rate(address: str, messages: int, value_bytes: int) -> float:
    """Seconds until one subscriber has them all."""
    topic = _topic()
    subscriber = _Link(address)
    subscriber.ask(b"SUB %b\n" % topic)
    began = time.perf_counter()
    publisher = threading.Thread(target=_publish, args=(address, topic, messages, value_bytes))
    publisher.start()
    subscriber.read_lines(messages)
    took = time.perf_counter() - began
    publisher.join()
    subscriber.socket.close()
    return took


def latency(address: str, seconds: float, per_second: int) -> list[float]:
    line = b"PUB %b %b\n" % (_topic(), b"x" * 100)
    link, found = _Link(address), list[float]()
    link.ask(line)
    began = time.perf_counter()
    for number in range(int(seconds * per_second)):
        due = began + number / per_second
        while (now := time.perf_counter()) < due:
            time.sleep(due - now)
        link.ask(line)
        found.append(time.perf_counter() - max(due, now))
    link.socket.close()
    return found
