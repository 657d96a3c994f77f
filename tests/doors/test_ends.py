"""Answers that go past the transport: in order, whole, and never into a socket that is somebody else's."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

import pytest

from headrace.doors.kafka.ends import send_now, socket_of

if TYPE_CHECKING:
    from headrace.doors.kafka.connection import Connection

SMALL_BUFFER = 4096
PIECE_BYTES = 60  # an answer to a Produce


class End(asyncio.Protocol):
    """As much of a connection as answering takes."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.ended: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.socket = socket_of(self.transport)

    def abort(self, cause: str) -> None:
        self.ended.append(cause)
        self.transport.abort()

    def answer(self, data: bytes) -> None:
        send_now(cast("Connection", self), data)


@pytest.fixture
async def ends() -> AsyncIterator[tuple[End, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
    _, end = await asyncio.get_running_loop().create_connection(End, sock=ours)
    with theirs:
        yield end, theirs
        end.transport.abort()
        await asyncio.sleep(0)


async def test_an_answer_is_with_the_client_before_the_turn_ends(ends: tuple[End, socket.socket]) -> None:
    end, theirs = ends
    end.answer(b"here")
    assert theirs.recv(100) == b"here"
    assert not end.transport.get_write_buffer_size()


@pytest.mark.parametrize("size", [PIECE_BYTES, 3 * SMALL_BUFFER])
async def test_what_the_socket_does_not_take_follows_in_order(ends: tuple[End, socket.socket], size: int) -> None:
    end, theirs = ends
    theirs.setblocking(False)
    chance, loop, sent, got = random.Random(size), asyncio.get_running_loop(), bytearray(), bytearray()
    was_full = 0
    for _ in range(300):
        piece = chance.randbytes(size)
        sent += piece
        end.answer(piece)
        was_full += end.transport.get_write_buffer_size() > 0
        if chance.random() < 0.02:
            got += await loop.sock_recv(theirs, 1 << 20)
    while len(got) < len(sent):
        got += await asyncio.wait_for(loop.sock_recv(theirs, 1 << 20), 10)
    assert got == sent
    assert was_full > 10 and not end.ended


async def test_an_answer_to_a_client_that_has_gone_ends_the_connection(ends: tuple[End, socket.socket]) -> None:
    end, theirs = ends
    theirs.close()
    end.answer(b"nobody there")
    assert end.ended == ["client"]
