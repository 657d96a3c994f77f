"""A json client in a few lines, with nothing of ours in it: a socket and bytes.

`reply` is one exchange as the original's clients have it: connect, send, read to the end. `Kept` is a connection of
ours that stays: begun with a newline, one document a line.
"""

from __future__ import annotations

import contextlib
import json
import socket
from types import TracebackType
from typing import Any, Self

LIMIT_S = 20.0


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=LIMIT_S)


def rest(connection: socket.socket) -> bytes:
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            got += piece
    return got


def reply(address: str, *pieces: bytes) -> bytes:
    with connect(address) as connection:
        for piece in pieces:
            connection.sendall(piece)
        return rest(connection)


def request(kind: str, topic: str, partition: Any = 0, payload: Any = None, **more: Any) -> bytes:
    return json.dumps({"type": kind, "topic_name": topic, "partition": partition, "payload": payload} | more).encode()


def publish(address: str, topic: str, payload: Any, partition: Any = 0, **more: Any) -> dict[str, Any]:
    return json.loads(reply(address, request("publish", topic, partition, payload, **more)))


def consume(address: str, topic: str, offset: int = 0, partition: Any = 0) -> dict[str, Any]:
    return json.loads(reply(address, request("consume", topic, partition, offset=offset)))


class Kept:
    def __init__(self, address: str) -> None:
        self.socket = connect(address)
        self.socket.sendall(b"\n")
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self.socket.close()

    def send(self, *documents: bytes) -> None:
        self.socket.sendall(b"".join(document + b"\n" for document in documents))

    def line(self) -> bytes:
        return self._file.readline()

    def ask(self, document: bytes) -> bytes:
        self.send(document)
        return self.line()
