"""What listens on loopback does not pace what it sends; whatever else the machine is set to stays."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from headrace.doors import listening
from headrace.doors.listening import UNPACED, listen


class Listening:
    """A listening socket whose kernel was set to something."""

    def __init__(self, host: str, control: bytes, *, is_refused: bool = False) -> None:
        self.host, self.control, self._is_refused = host, control, is_refused

    def getsockname(self) -> tuple[str, int]:
        return self.host, 9092

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert level == socket.IPPROTO_TCP
        return self.control.ljust(size, b"\0")

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        if self._is_refused:
            raise PermissionError(1, "not allowed")
        self.control = value


def listened(*ends: Listening) -> tuple[str, int]:
    class Server:
        sockets = ends

    class Loop:
        async def create_server(self, *_: object, **__: object) -> Server:
            return Server()

    made = asyncio.run(listen(cast(Any, Loop()), asyncio.Protocol, "somewhere", 0, 1))
    return made[1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a socket choose")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1"])
@pytest.mark.parametrize("control", [b"bbr", b"bbr3"])
def test_loopback_is_not_paced(host: str, control: bytes) -> None:
    end = Listening(host, control)
    assert listened(end) == (host, 9092)
    assert end.control == UNPACED


@pytest.mark.parametrize(("host", "control"), [("0.0.0.0", b"bbr"), ("192.0.2.1", b"bbr"), ("127.0.0.1", b"cubic")])
def test_all_else_is_the_machines_choice(host: str, control: bytes) -> None:
    end = Listening(host, control)
    listened(end)
    assert end.control == control


def test_a_kernel_that_refuses_is_no_obstacle() -> None:
    end = Listening("127.0.0.1", b"bbr", is_refused=True)
    assert listened(end) == ("127.0.0.1", 9092)
    assert end.control == b"bbr"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a socket choose")
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_who_is_accepted_is_not_paced(new_loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine is set to is taken for one that paces, so that something has to change."""
    set_to = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_bytes().strip()
    unpaced = UNPACED if set_to != UNPACED else b"cubic"
    monkeypatch.setattr(listening, "PACING", set_to)
    monkeypatch.setattr(listening, "UNPACED", unpaced)
    accepted: list[bytes] = []

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            end = transport.get_extra_info("socket")
            accepted.append(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0"))
            cast(asyncio.Transport, transport).close()

    async def connect() -> None:
        server, (host, port) = await listen(asyncio.get_running_loop(), Accepted, "127.0.0.1", 0, 1)
        with pytest.raises(ConnectionRefusedError):  # it has its place, and takes nobody yet
            await asyncio.open_connection(host, port)
        await server.start_serving()
        reader, writer = await asyncio.open_connection(host, port)
        assert await reader.read() == b""
        writer.close()
        server.close()

    loop = new_loop()
    try:
        loop.run_until_complete(connect())
    finally:
        loop.close()
    assert accepted == [unpaced]
