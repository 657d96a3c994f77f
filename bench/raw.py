"""Kafka requests built by hand and sent over plain sockets: for what a client library would blur.

- `first_ack`: is the broker there, and does it keep a record? The end of "start to first ack".
- `Pipeline`: Produce requests of exactly one batch, prebuilt, spread over partitions, a fixed number in
  flight: the same requests whatever the number of partitions, so that only the broker's own cost can differ.
- `IdleConnections`: clients that have said hello and nothing more.

The encodings are the oldest that both brokers still take (Metadata 1, Produce 3), and owe nothing to our own
codecs.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Self

import crc32c

PRODUCE, METADATA, API_VERSIONS = 0, 3, 18
PRODUCE_VERSION, METADATA_VERSION = 3, 1
CONNECT_LIMIT_S = 0.5
ANSWER_LIMIT_S = 30.0
RECEIVE_BYTES = 1 << 20


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def request(key: int, version: int, body: bytes, correlation: int = 0) -> bytes:
    head = struct.pack(">hhi", key, version, correlation) + text("bench")
    return struct.pack(">i", len(head) + len(body)) + head + body


def varint(value: int) -> bytes:
    """Zigzag, as record fields are."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def batch(count: int, value: bytes) -> bytes:
    """Records of now: older ones would be retention's business, and that is another measurement."""
    timestamp_ms = int(time.time() * 1000)
    records = bytearray()
    for delta in range(count):
        record = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(record)) + record
    body = struct.pack(">hiqqqhii", 0, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count) + records
    checked = struct.pack(">I", crc32c.crc32c(body)) + body
    return struct.pack(">qiib", 0, len(checked) + 5, -1, 2) + checked


def produce_request(topic: str, partition: int, records: bytes, acks: int = 1) -> bytes:
    head = struct.pack(">hhi", -1, acks, 30_000) + struct.pack(">i", 1) + text(topic)
    body = head + struct.pack(">iii", 1, partition, len(records)) + records
    return request(PRODUCE, PRODUCE_VERSION, body)


def metadata_request(topic: str) -> bytes:
    return request(METADATA, METADATA_VERSION, struct.pack(">i", 1) + text(topic))


def connect(address: str, limit_s: float = ANSWER_LIMIT_S) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), limit_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("the broker closed the connection")
        parts += part
    return bytes(parts)


def receive_answer(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", receive_exactly(connection, 4))
    return receive_exactly(connection, size)


def first_ack(address: str, topic: str) -> bool:
    """One record kept with acks=1, in a topic made by asking for it; False while the broker is not ready."""
    try:
        with connect(address, CONNECT_LIMIT_S) as connection:
            connection.settimeout(ANSWER_LIMIT_S)
            connection.sendall(metadata_request(topic))
            receive_answer(connection)
            connection.sendall(produce_request(topic, 0, batch(1, b"first")))
            return produce_error(receive_answer(connection)) == 0
    except OSError:
        return False


def produce_error(answer: bytes) -> int:
    """The error of an answer for one partition: offset, time and throttle follow it, 20 bytes in all."""
    (code,) = struct.unpack_from(">h", answer, len(answer) - 22)
    return int(code)


class Pipeline:
    """Prebuilt Produce requests, `in_flight` at a time, over one connection, partition after partition."""

    def __init__(
        self, address: str, topic: str, partitions: int, records: int, value_bytes: int, in_flight: int
    ) -> None:
        self._connection = connect(address)
        payload = batch(records, b"x" * value_bytes)
        self._requests = [produce_request(topic, p, payload) for p in range(partitions)]
        self._connection.sendall(self._requests[0])
        self._answer_bytes = 4 + len(receive_answer(self._connection))
        self._in_flight = in_flight
        self._next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def run(self, requests: int) -> None:
        """Sends them all and checks that each was acknowledged without an error."""
        sent = answered = 0
        rest = b""
        while answered < requests:
            room = min(requests - sent, self._in_flight - (sent - answered))
            if room:
                self._connection.sendall(self._take(room))
                sent += room
            rest += self._connection.recv(RECEIVE_BYTES)
            whole = len(rest) // self._answer_bytes
            self._check(rest, whole)
            rest = rest[whole * self._answer_bytes :]
            answered += whole

    def _take(self, count: int) -> bytes:
        chosen = []
        for _ in range(count):
            chosen.append(self._requests[self._next])
            self._next = (self._next + 1) % len(self._requests)
        return b"".join(chosen)

    def _check(self, answers: bytes, whole: int) -> None:
        if not answers:
            raise ConnectionError("the broker closed the connection")
        for end in range(self._answer_bytes, whole * self._answer_bytes + 1, self._answer_bytes):
            if answers[end - 22 : end - 20] != b"\0\0":
                raise ConnectionError(f"error {produce_error(answers[:end])} in a Produce answer")


class IdleConnections:
    def __init__(self, address: str, count: int) -> None:
        hello = request(API_VERSIONS, 0, b"")
        self._connections = [connect(address) for _ in range(count)]
        for connection in self._connections:
            connection.sendall(hello)
        for connection in self._connections:
            receive_answer(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.close()
