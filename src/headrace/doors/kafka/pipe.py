"""The way of bytes that nobody looks at, from a file to a socket: through a pipe, with what stands before and behind
them in their answer, so that all of it leaves as one.

Linux's sendfile has such a pipe inside, of 64 KiB: it is filled and emptied sixteen times for a consumer's megabyte,
each time with a look at the socket and at who waits at its other end. One that holds a megabyte takes a quarter less of
the processor's time (docs/decisions/0014). All connections share it: whoever sends leaves it empty.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from headrace.ports import Piece, Unseen

PIPE_BYTES: Final = 1 << 20  # as much as Linux gives to everybody
LEAST_BYTES: Final = 64 << 10  # who has many pipes already gets smaller ones: with those, to copy is cheaper
IS_THERE: Final = hasattr(os, "splice")  # Linux
_MORE: Final = getattr(os, "SPLICE_F_MORE", 0)
_CLOSED: Final = -1


class Pipe:
    def __init__(self) -> None:
        self._into = self._out = _CLOSED
        self._waiting = self._sent = 0  # bytes that are in it, and that the socket took

    def send(self, socket: int, pieces: Sequence[Piece]) -> int:
        """To a socket that does not wait; says how many bytes it took. Not all: it is full, or what comes next cannot
        be sent so. ConnectionError: who was at its other end is gone."""
        self._sent, is_empty = 0, False
        try:
            if self._into == _CLOSED:
                self._open()
            for piece in pieces:
                self._fill(piece, socket)
            self._empty(socket, 0)
            is_empty = True
        except ConnectionError:
            raise
        except OSError:
            pass
        finally:
            if not is_empty:  # not even by its own account: whatever came in between, nobody gets another's bytes
                self.close()
        return self._sent

    def close(self) -> None:
        """What is in it is gone, too. The next one who sends opens it again."""
        into, out = self._into, self._out
        self._into = self._out = _CLOSED
        self._waiting = 0
        if into != _CLOSED:
            os.close(into)
            os.close(out)

    def _open(self) -> None:
        self._out, self._into = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(OSError):  # this user may have no larger one
            fcntl.fcntl(self._into, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        if fcntl.fcntl(self._into, fcntl.F_GETPIPE_SZ) < LEAST_BYTES:
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))

    def _fill(self, piece: Piece, socket: int) -> None:
        done, size = 0, len(piece)
        while True:
            try:
                if isinstance(piece, Unseen):
                    count = piece.pour(self._into, done)
                else:
                    count = os.write(self._into, piece if not done else memoryview(piece)[done:])
            except BlockingIOError:
                if not self._waiting:
                    raise
                count = 0
            else:
                _check(count, size)
            done += count
            self._waiting += count
            if done == size:
                return
            self._empty(socket, _MORE)

    def _empty(self, socket: int, flags: int) -> None:
        while self._waiting:
            count = os.splice(self._out, socket, self._waiting, flags=flags)
            _check(count, self._waiting)
            self._waiting -= count
            self._sent += count


def _check(count: int, size: int) -> None:
    """To go on after nothing would be to go on for ever."""
    if not count and size:
        raise OSError(errno.EIO, "the kernel moved nothing, and did not say why")
