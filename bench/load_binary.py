"""Loads for the binary door: raw sockets and frames made beforehand, so that what is measured is the server.

- `publish_rate`: messages one after the other without waiting for replies (which are read and counted).
- `deliver_rate`: the same with one subscriber; until it has them all.
- `latency`: one message at a time at a given rate; seconds from its sending to its reply.
"""

from __future__ import annotations

import socket
import struct
import threading
import time

CREATE_TOPIC, SUBSCRIBE, PUBLISH = 4, 5, 7
CHUNK_BYTES = 256 << 10  # sent at once: what a busy client's buffer holds


def _frame(kind: int, sequence: int, properties: dict[str, str], body: bytes = b"") -> bytes:
    pairs = {**properties, "created_at": "1755518400.5", "version": "1.0"}
    block = b"".join(f"{key}={value}".encode() + b"\0" for key, value in pairs.items())
    head = struct.pack(">IIQQII", 32 + len(block) + len(body), kind, sequence, 1755518400500, len(block), len(body))
    return head + block + body


class _Link:
    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def ask(self, kind: int, properties: dict[str, str], body: bytes = b"") -> None:
        self.socket.sendall(_frame(kind, 1, properties, body))
        self.read_frames(1)

    def read_frames(self, count: int) -> None:
        """Counts frames by their lengths alone."""
        while count:
            self._rest += self.socket.recv(1 << 20)
            at = 0
            while count and len(self._rest) - at >= 4:
                (total,) = struct.unpack_from(">I", self._rest, at)
                if at + total > len(self._rest):
                    break
                at, count = at + total, count - 1
            self._rest = self._rest[at:]


def _topic(address: str) -> str:
    name = f"binary-{time.monotonic_ns()}"
    link = _Link(address)
    link.ask(CREATE_TOPIC, {"topic": name, "partitions": "1"})
    link.socket.close()
    return name


def _publish(address: str, topic: str, messages: int, value_bytes: int) -> None:
    link = _Link(address)
    one = _frame(PUBLISH, 1, {"topic": topic, "client_id": "load", "partition": "0"}, bytes(value_bytes))
    chunk = max(1, CHUNK_BYTES // len(one))
    reader = threading.Thread(target=link.read_frames, args=(messages,))
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
    topic = _topic(address)
    began = time.perf_counter()
    _publish(address, topic, messages, value_bytes)
    return time.perf_counter() - began


def deliver_rate(address: str, messages: int, value_bytes: int) -> float:
    """Seconds until one subscriber has them all."""
    topic = _topic(address)
    subscriber = _Link(address)
    subscriber.ask(SUBSCRIBE, {"topic": topic, "client_id": "load"})
    began = time.perf_counter()
    publisher = threading.Thread(target=_publish, args=(address, topic, messages, value_bytes))
    publisher.start()
    subscriber.read_frames(messages)
    took = time.perf_counter() - began
    publisher.join()
    subscriber.socket.close()
    return took


def latency(address: str, seconds: float, per_second: int) -> list[float]:
    topic = _topic(address)
    link, found = _Link(address), list[float]()
    began = time.perf_counter()
    for number in range(int(seconds * per_second)):
        due = began + number / per_second
        while (now := time.perf_counter()) < due:
            time.sleep(due - now)
        link.ask(PUBLISH, {"topic": topic, "client_id": "load", "partition": "0"}, bytes(100))
        found.append(time.perf_counter() - max(due, now))
    link.socket.close()
    return found
