"""A msgpack client made of a socket and bytes: nothing of ours writes or reads for it."""

from __future__ import annotations

import itertools
import select
import socket
import struct
import time
import urllib.request
from types import TracebackType
from typing import Self

LIMIT_S = 20.0  # far more than anything needs; the machine may be busy
_numbers = itertools.count()


def text(content: str) -> bytes:
    data = content.encode()
    if len(data) < 32:
        return bytes([0xA0 | len(data)]) + data
    if len(data) < 256:
        return b"\xd9" + struct.pack(">B", len(data)) + data
    if len(data) < 1 << 16:
        return b"\xda" + struct.pack(">H", len(data)) + data
    return b"\xdb" + struct.pack(">I", len(data)) + data


def subscribe(pattern: str) -> bytes:
    return b"\x81\xa9Subscribe\x91" + text(pattern)


def unsubscribe(pattern: str) -> bytes:
    return b"\x81\xabUnsubscribe\x91" + text(pattern)


def publish(topic: str, value: bytes) -> bytes:
    return b"\x81\xa7Publish\x91\x92" + text(topic) + value


def delivery(topic: str, value: bytes) -> bytes:
    return b"\x92" + text(topic) + value


def metric(http: str, name: str, door: str = "msgpack") -> float:
    """A door's, as Prometheus gets it."""
    with urllib.request.urlopen(f"http://{http}/metrics/prometheus") as answer:
        text = answer.read().decode()
    (line,) = [line for line in text.splitlines() if line.startswith(f'{name}{{door="{door}"')]
    return float(line.rpartition(" ")[2])


class Raw:
    def __init__(self, address: str, *, receive_bytes: int | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(LIMIT_S)
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, *pieces: bytes) -> None:
        self.socket.sendall(b"".join(pieces))

    def exactly(self, size: int) -> bytes:
        """The next so many bytes; fewer when the connection ends."""
        while len(self._left) < size:
            data = self.socket.recv(1 << 20)
            if not data:
                break
            self._left += data
        found, self._left = self._left[:size], self._left[size:]
        return found

    def expect(self, *deliveries: bytes) -> None:
        for wanted in deliveries:
            assert self.exactly(len(wanted)) == wanted

    def in_order(self, prefix: str = "!system") -> None:
        """Everything that was sent before is done: what is published to a name of its own comes back. What else comes
        is kept."""
        name = f"{prefix}-done-{next(_numbers)}"
        self.send(subscribe(name), publish(name, b"\xc0"), unsubscribe(name))
        done = delivery(name, b"\xc0")
        while done not in self._left:
            data = self.socket.recv(1 << 20)
            assert data, f"the connection ended after {self._left!r}"
            self._left += data
        self._left = self._left.replace(done, b"")

    def expect_nothing(self) -> None:
        """And nothing else was delivered meanwhile."""
        self.in_order()
        assert not self._left

    def is_silent(self, seconds: float) -> bool:
        return not select.select([self.socket], [], [], seconds)[0]

    def ends(self) -> bool:
        """The other side closes, without another word."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return True
            if not data:
                return True
            self._left += data
        return False
