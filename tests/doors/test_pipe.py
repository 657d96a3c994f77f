"""The pipe between files and sockets: all bytes in their order, or as many as the socket took, and nothing left for the
next connection."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.doors.kafka import pipe as pipes
from headrace.doors.kafka.pipe import Pipe
from headrace.ports import Piece, Unseen

KIB, MIB = 1 << 10, 1 << 20

pytestmark = pytest.mark.skipif(not pipes.IS_THERE, reason="this system has no splice")


class Part(Unseen):
    """Of a file."""

    def __init__(self, file: int, begin: int, size: int) -> None:
        self.file, self.begin, self.size = file, begin, size
        self.fails_at = size + 1

    def __len__(self) -> int:
        return self.size

    def pour(self, pipe: int, done: int) -> int:
        if done >= self.fails_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return os.splice(self.file, pipe, min(self.size, self.fails_at) - done, self.begin + done)

    def rest(self, done: int) -> bytes:
        return os.pread(self.file, self.size - done, self.begin + done)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    path = tmp_path_factory.mktemp("pipe") / "file"
    path.write_bytes(os.urandom(4 * MIB))
    with path.open("rb") as opened:
        yield opened.fileno()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


@contextmanager
def ends(buffer_bytes: int = 8 * MIB) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Of a connection; the first does not wait."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        near.setblocking(False)
        far.settimeout(10)
        yield near, far


def whole(pieces: list[Piece]) -> bytes:
    return b"".join(piece.rest(0) if isinstance(piece, Unseen) else bytes(piece) for piece in pieces)


def received(far: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = far.recv(size - len(data))
        assert more
        data += more
    return data


def takes(pipe: Pipe, near: socket.socket, far: socket.socket, pieces: list[Piece]) -> None:
    """All of it, though the socket may be full now and then; and nothing but it."""
    expected = whole(pieces)
    count = pipe.send(near.fileno(), pieces)
    assert received(far, count) == expected[:count]
    until = time.monotonic() + 10
    while count < len(expected):
        assert time.monotonic() < until
        more = pipe.send(near.fileno(), [expected[count:]])
        assert received(far, more) == expected[count : count + more]
        count += more
    far.setblocking(False)
    with pytest.raises(BlockingIOError):
        far.recv(1)
    far.settimeout(10)


SEEN = st.integers(0, 70 * KIB).map(lambda size: bytes(range(256)) * (size // 256) + bytes(size % 256))
UNSEEN = st.tuples(st.integers(0, 2 * MIB), st.one_of(st.integers(1, 200 * KIB), st.integers(MIB - 9 * KIB, 2 * MIB)))


@settings(deadline=None, max_examples=40)
@given(pieces=st.lists(st.one_of(SEEN, UNSEEN), min_size=1, max_size=8), buffer_bytes=st.sampled_from([5000, 8 * MIB]))
def test_pieces_arrive_as_they_are_whatever_their_sizes_and_the_sockets(
    file: int, pieces: list[bytes | tuple[int, int]], buffer_bytes: int
) -> None:
    pipe = Pipe()
    try:
        with ends(buffer_bytes) as (near, far):
            takes(pipe, near, far, [Part(file, *piece) if isinstance(piece, tuple) else piece for piece in pieces])
    finally:
        pipe.close()


def test_a_full_socket_is_told_and_the_next_connection_gets_nothing_of_it(file: int, pipe: Pipe) -> None:
    part = Part(file, 0, 4 * MIB)
    with ends(5000) as (slow, behind), ends() as (near, far):
        count = pipe.send(slow.fileno(), [b"head", part, b"end"])
        assert 0 < count < 4 * MIB
        takes(pipe, near, far, [b"another", Part(file, MIB, 100 * KIB)])
        assert received(behind, count) == whole([b"head", part])[:count]
        assert pipe.send(near.fileno(), []) == 0


def test_one_that_has_gone_is_told_and_leaves_nothing_in_the_pipe(file: int, pipe: Pipe) -> None:
    with ends() as (gone, far):
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        far.close()
        with pytest.raises(ConnectionError):
            pipe.send(gone.fileno(), [b"head", Part(file, 0, MIB)])
    with ends() as (near, far):
        takes(pipe, near, far, [Part(file, 5, 100 * KIB)])


def test_what_does_not_read_ends_what_is_sent(file: int, pipe: Pipe) -> None:
    part = Part(file, 0, 3 * MIB)
    part.fails_at = 100 * KIB + 1
    with ends() as (near, far):
        count = pipe.send(near.fileno(), [b"head", part])
        assert count == 4 + part.fails_at, "as far as it read"
        assert received(far, count) == whole([b"head", part])[:count]
        takes(pipe, near, far, [Part(file, MIB, 100 * KIB)])


class Still(Part):
    """Of a file that has ended, and does not say so."""

    def pour(self, pipe: int, done: int) -> int:
        return 0 if done else super().pour(pipe, done)


def test_nothing_is_waited_for_that_does_not_come(file: int, pipe: Pipe) -> None:
    with ends() as (near, far):
        for pieces in ([Still(file, 0, 2 * MIB)], [b"head", Still(file, 4 * MIB, KIB)]):
            assert pipe.send(near.fileno(), pieces) < len(pieces[-1])
            far.settimeout(0.2)
            with pytest.raises(TimeoutError):
                while far.recv(MIB):
                    pass
            far.settimeout(10)
        takes(pipe, near, far, [Part(file, 5, 100 * KIB)])


def test_a_pipe_that_moves_nothing_is_given_up(file: int, pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    with ends() as (near, far):
        with monkeypatch.context() as patch:
            patch.setattr(pipes.os, "splice", lambda *_, **__: 0)
            assert pipe.send(near.fileno(), [b"head"]) == 0
        takes(pipe, near, far, [b"another", Part(file, 5, 100 * KIB)])


def test_what_breaks_in_upon_it_leaves_nothing_for_the_next(file: int, pipe: Pipe) -> None:
    class Interrupted(Part):
        def pour(self, pipe: int, done: int) -> int:
            super().pour(pipe, done)
            raise KeyboardInterrupt  # before it is known how much is in the pipe

    with ends() as (near, far):
        with pytest.raises(KeyboardInterrupt):
            pipe.send(near.fileno(), [Interrupted(file, 0, KIB)])
        takes(pipe, near, far, [b"another", Part(file, 5, 100 * KIB)])


def test_all_of_it_goes_unseen_when_there_is_room(file: int, pipe: Pipe) -> None:
    pieces: list[Piece] = [b"head", Part(file, 100, 200 * KIB), b"end"]
    with ends() as (near, far):
        assert pipe.send(near.fileno(), pieces) == 200 * KIB + 7
        assert received(far, 200 * KIB + 7) == whole(pieces)


def test_where_there_are_no_more_handles_nothing_is_sent(
    file: int, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(flags: int) -> tuple[int, int]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with ends() as (near, far):
        with monkeypatch.context() as patch:
            patch.setattr(pipes.os, "pipe2", refuses)
            assert pipe.send(near.fileno(), [b"head", Part(file, 0, MIB)]) == 0
        takes(pipe, near, far, [b"head", Part(file, 0, MIB)])


def test_what_is_no_socket_gets_nothing(file: int, pipe: Pipe, tmp_path: Path) -> None:
    for_appending = os.open(tmp_path / "file", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        assert pipe.send(for_appending, [Part(file, 0, MIB)]) == 0
    finally:
        os.close(for_appending)
    with ends() as (near, far):
        takes(pipe, near, far, [Part(file, 0, MIB)])


def test_a_small_pipe_is_filled_more_often(file: int, pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its user may have no larger one."""
    monkeypatch.setattr(pipes, "PIPE_BYTES", 64 * KIB)
    with ends() as (near, far):
        takes(pipe, near, far, [b"head", Part(file, 3, MIB), b"x" * 100_000, Part(file, 0, 2 * MIB), b"end"])


def test_one_that_is_smaller_still_is_not_used(file: int, pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who has many gets pipes of two pages."""
    handles = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(pipes, "PIPE_BYTES", 8 * KIB)
    with ends() as (near, _):
        assert pipe.send(near.fileno(), [b"head", Part(file, 3, MIB)]) == 0
    assert len(os.listdir("/proc/self/fd")) == handles


def test_a_pipe_that_may_not_be_enlarged_is_used_as_it_is(
    file: int, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.fcntl

    def refuses(handle: int, command: int, argument: int = 0) -> int:
        if command == fcntl.F_SETPIPE_SZ:
            raise PermissionError(errno.EPERM, "enough")
        return real(handle, command, argument)

    monkeypatch.setattr(pipes.fcntl, "fcntl", refuses)
    with ends() as (near, far):
        takes(pipe, near, far, [b"head", Part(file, 3, MIB), b"x" * 100_000, b"end"])


def test_it_holds_two_handles_until_it_is_closed(file: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    pipe = Pipe()
    assert len(os.listdir("/proc/self/fd")) == before, "none before it is used"
    with ends() as (near, far):
        takes(pipe, near, far, [Part(file, 0, MIB)])
    assert len(os.listdir("/proc/self/fd")) == before + 2
    pipe.close()
    pipe.close()
    assert len(os.listdir("/proc/self/fd")) == before
