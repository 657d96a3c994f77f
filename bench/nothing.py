"""A server that keeps nothing: what one machine's sockets and the client allow, with no broker between them.

It answers Produce with the answer that a node gave to the first one, and throws the records away as they come. It
answers a Fetch with what a node once answered to the very same request, sent by the kernel from a file, through a pipe
as ours. All else, and whatever comes for the first time, a node behind it answers. So no broker that is spoken to in
this way can be quicker, or cost less, by more than the few microseconds of Python that a request costs here.

What a client whose id is `kept` sends is not thrown away: it is there to be fetched.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO

from bench.floor import Stretch
from bench.raw import connect, receive_exactly
from headrace.doors.kafka.pipe import Pipe
from headrace.doors.listening import stop_pacing
from headrace.testing.served import DOORS, ServedBroker

PRODUCE, FETCH = 0, 1
KEPT = "kept"
HEAD = struct.Struct(">ihhih")  # size, api key, version, correlation id, length of the client id
ANSWER_HEAD_BYTES = 8  # size and correlation id
BUFFER_BYTES = 1 << 20
WORTH_KEEPING_BYTES = 64 << 10  # a smaller answer to a Fetch had to wait for records


class Kept:
    """Answers to Fetch by request, in a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self.handle, self._end = file.fileno(), 0
        self._places: dict[bytes, tuple[int, int]] = {}

    def add(self, request: bytes, answer: bytes) -> None:
        if len(answer) > WORTH_KEEPING_BYTES:
            self._places[request] = (self._end, len(answer) - ANSWER_HEAD_BYTES)
            self._end += os.pwrite(self.handle, memoryview(answer)[ANSWER_HEAD_BYTES:], self._end)

    def find(self, request: bytes) -> tuple[int, int] | None:
        return self._places.get(request)


class Conversation:
    def __init__(self, client: socket.socket, node: str, kept: Kept) -> None:
        self._client, self._kept = client, kept
        self._node = connect(node)
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._at = self._end = 0
        self._produced = bytearray()
        self._pipe = Pipe()

    def run(self) -> None:
        with self._client, self._node:
            try:
                while True:
                    self._answer(*HEAD.unpack(self._take(HEAD.size)))
            except ConnectionError:
                return  # the client has gone
            finally:
                self._pipe.close()

    def _answer(self, size: int, key: int, version: int, correlation: int, client_bytes: int) -> None:
        head = HEAD.pack(size, key, version, correlation, client_bytes)
        rest = size + 4 - HEAD.size
        if key == PRODUCE and self._produced:
            self._drop(rest)
            struct.pack_into(">i", self._produced, 4, correlation)
            self._client.sendall(self._produced)
            return
        body = self._take(rest)
        if key == FETCH and (place := self._kept.find(body)) is not None:
            self._send_kept(correlation, *place)
            return
        self._node.sendall(head + body)
        answered = receive_exactly(self._node, 4)
        answer = answered + receive_exactly(self._node, *struct.unpack(">i", answered))
        if key == PRODUCE and not body.startswith(KEPT.encode()):
            self._produced = bytearray(answer)
        elif key == FETCH:
            self._kept.add(body, answer)
        self._client.sendall(answer)

    def _send_kept(self, correlation: int, position: int, size: int) -> None:
        head = struct.pack(">ii", size + 4, correlation)
        sent = self._pipe.send(self._client.fileno(), [head, Stretch(self._kept.handle, position, size)])
        if sent < len(head) + size:
            raise RuntimeError("a socket that waits did not take all of it")

    def _take(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            step = min(size - len(taken), self._waiting())
            taken += self._buffer[self._at : self._at + step]
            self._at += step
        return bytes(taken)

    def _drop(self, size: int) -> None:
        while size:
            step = min(size, self._waiting())
            self._at, size = self._at + step, size - step

    def _waiting(self) -> int:
        if self._at == self._end:
            self._at, self._end = 0, self._client.recv_into(self._buffer)
            if not self._end:
                raise ConnectionError
        return self._end - self._at


def main() -> None:
    """In a folder: the node, and `ready.json`, which says where this server is."""
    folder = Path(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # the node goes, too
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener, tempfile.TemporaryFile(dir=folder) as file:
        stop_pacing(listener)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        off = [word for door in DOORS if door != "kafka" for word in (f"--{door}", "off")]
        with ServedBroker(folder / "node", "--kafka-advertised", address, *off) as node:
            (folder / "ready.json").write_text(json.dumps({"addresses": {"kafka": address}}))
            kept = Kept(file)
            while True:
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=Conversation(client, node.address, kept).run, daemon=True).start()


if __name__ == "__main__":
    main()
