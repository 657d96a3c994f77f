"""What listens on loopback does not pace what it sends; whatever else the machine is set to stays. Who has bound a
port listens at it, or is told that another does."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from headrace.doors import listening
from headrace.doors.listening import UNPACED, is_taking_connections, listen, take_connections

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
linux_binds_twice = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the second cannot even bind")


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
@pytest.mark.parametrize("new_loop", LOOPS)
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
        await take_connections(server)
        reader, writer = await asyncio.open_connection(host, port)
        assert await reader.read() == b""
        writer.close()
        server.close()

    run(new_loop, connect())
    assert accepted == [unpaced]


def run(new_loop: Callable[[], asyncio.AbstractEventLoop], work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work)


class Greeting(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(b"welcome")
        cast(asyncio.Transport, transport).close()


async def greeted(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    said = await reader.read()
    writer.close()
    return said


@linux_binds_twice
@pytest.mark.parametrize("new_loop", LOOPS)
def test_of_two_that_bound_one_port_the_second_to_listen_is_told_and_the_first_goes_on(new_loop: Any) -> None:
    async def both() -> None:
        loop = asyncio.get_running_loop()
        first, (host, port) = await listen(loop, Greeting, "127.0.0.1", 0, 1)
        second, _ = await listen(loop, asyncio.Protocol, host, port, 1)
        assert not is_taking_connections(first)
        await take_connections(first)
        with pytest.raises(OSError, match=r"Address already in use") as told:
            await take_connections(second)
        assert told.value.errno == errno.EADDRINUSE
        assert not second.sockets and not second.is_serving() and not is_taking_connections(second)
        assert is_taking_connections(first)
        assert await greeted(host, port) == b"welcome"
        first.close()
        assert not is_taking_connections(first)

    run(new_loop, both())


@linux_binds_twice
@pytest.mark.parametrize("new_loop", LOOPS)
def test_whoever_has_one_of_several_sockets_has_the_place(new_loop: Any) -> None:
    async def both() -> None:
        loop = asyncio.get_running_loop()
        server, (_, port) = await listen(loop, Greeting, cast(Any, ["127.0.0.1", "127.0.0.2"]), 0, 1)
        hosts = [end.getsockname() for end in server.sockets]
        assert len(hosts) == 2
        with socket.create_server(hosts[1]), pytest.raises(OSError) as told:
            await take_connections(server)
        assert told.value.errno == errno.EADDRINUSE
        with pytest.raises(ConnectionRefusedError):
            await greeted("127.0.0.1", port)

    run(new_loop, both())


@linux_binds_twice
def test_a_server_whose_socket_is_closed_takes_nothing_though_it_says_that_it_serves() -> None:
    async def alone() -> None:
        loop = asyncio.get_running_loop()
        first, (host, port) = await listen(loop, Greeting, "127.0.0.1", 0, 1)
        second, _ = await listen(loop, Greeting, host, port, 1)
        await take_connections(first)
        await second.start_serving()  # uvloop's own, which is silent
        assert second.is_serving() and not is_taking_connections(second)
        first.close()
        second.close()

    run(uvloop.new_event_loop, alone())


def test_a_socket_that_cannot_tell_whether_it_listens_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "SO_ACCEPTCONN", -1)

    async def alone() -> None:
        server, (host, port) = await listen(asyncio.get_running_loop(), Greeting, "127.0.0.1", 0, 1)
        await take_connections(server)
        assert is_taking_connections(server)
        assert await greeted(host, port) == b"welcome"
        server.close()

    run(asyncio.new_event_loop, alone())
