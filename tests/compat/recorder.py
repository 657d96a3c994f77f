"""A server that only listens: it keeps every byte of every connection, and says what it was told to say."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

LIMIT_S = 20.0


class Recorder:
    """`greeting` comes first, then one of `replies` after each read. `is_short`: after a reply the connection ends."""

    def __init__(self, replies: list[bytes], *, greeting: bytes = b"", is_short: bool = False) -> None:
        self._replies, self._greeting, self._is_short = list(replies), greeting, is_short
        self._heard: list[bytes] = []
        self._changed = threading.Condition()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def place(self) -> tuple[str, int]:
        host, port = self._server.getsockname()
        return host, port

    @property
    def address(self) -> str:
        return "{}:{}".format(*self.place)

    def heard(self, size: int) -> bytes:
        """All that came on all connections, as soon as it is so much."""
        with self._changed:
            assert self._changed.wait_for(lambda: sum(map(len, self._heard)) >= size, LIMIT_S), self._heard
            return b"".join(self._heard)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(LIMIT_S)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(LIMIT_S)
                    self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        connection.sendall(self._greeting)
        while data := connection.recv(1 << 16):
            with self._changed:
                self._heard.append(data)
                self._changed.notify_all()
            if self._replies:
                connection.sendall(self._replies.pop(0))
            if self._is_short:
                return
