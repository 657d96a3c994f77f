"""A client of lines in a few lines, with nothing of ours in it: a socket, bytes, and patience.

`Peer` sends bytes as they are given, and hands out what comes line by line.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

LIMIT_S = 20.0  # for what takes milliseconds; the machine may be busy
QUIET_S = 0.15  # after which nothing more is thought to come
MESSAGE = re.compile(rb"(MSG|HISTORY) (\S+) (\S+) (\d+) (\d+\.\d+(?:e[+-]\d+)?) (.*)", re.DOTALL)
ID = re.compile(rb"msg_\d{13}_[0-9a-f]{8}")


class Shown(NamedTuple):
    verb: bytes
    topic: bytes
    id: bytes
    offset: int
    ts: bytes
    text: bytes


class Peer:
    def __init__(self, address: str, greeted: bool = True) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=LIMIT_S)
        self._kept = b""
        if greeted:
            assert self.line() == b"OK connected"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def line(self) -> bytes:
        """The next one, without its end."""
        while b"\n" not in self._kept:
            got = self.socket.recv(1 << 16)
            if not got:
                raise EOFError(self._kept)
            self._kept += got
        line, _, self._kept = self._kept.partition(b"\n")
        return line

    def lines(self, count: int) -> list[bytes]:
        return [self.line() for _ in range(count)]

    def ask(self, line: bytes) -> bytes:
        self.send(line + b"\n")
        return self.line()

    def until(self, last: bytes) -> list[bytes]:
        """All lines before that one."""
        found = []
        while (line := self.line()) != last:
            found.append(line)
        return found

    def history(self, line: bytes) -> list[Shown]:
        self.send(line + b"\n")
        return [shown(one) for one in self.until(b"OK history end")]

    def message(self) -> Shown:
        return shown(self.line())

    def texts(self, count: int) -> list[bytes]:
        return [self.message().text for _ in range(count)]

    def is_quiet(self) -> bool:
        """Nothing comes."""
        if self._kept:
            return False
        self.socket.settimeout(QUIET_S)
        try:
            self._kept += self.socket.recv(1)
            return False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(LIMIT_S)

    def rest(self) -> bytes:
        """All until the other side closes."""
        with contextlib.suppress(ConnectionResetError):
            while got := self.socket.recv(1 << 16):
                self._kept += got
        rest, self._kept = self._kept, b""
        return rest


def shown(line: bytes) -> Shown:
    found = MESSAGE.fullmatch(line)
    assert found is not None, line
    verb, topic, own, offset, ts, text = found.groups()
    assert repr(float(ts)).encode() == ts
    return Shown(verb, topic, own, int(offset), ts, text)


@contextlib.contextmanager
def peers(address: str, count: int) -> Iterator[list[Peer]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Peer(address)) for _ in range(count)]
