"""How a door listens: first it has its place, and only later takes connections, when the node behind it is ready.

A machine may pace what it sends (BBR), for the good of a network that others use, too. It then paces its loopback as
well, with a timer for every 64 KiB, which costs a server of large answers a quarter of its time and helps nobody. So
what listens on loopback sends without pacing (docs/decisions/0012). Its connections take that over from the listener.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

PACING: Final = b"bbr"  # how the names begin of what paces
UNPACED: Final = b"reno"  # in every kernel, and open to every user
_CONGESTION: Final = getattr(socket, "TCP_CONGESTION", None)  # Linux has it
_NAME_BYTES: Final = 16  # of such a name, at the most


async def listen(
    loop: asyncio.AbstractEventLoop,
    new_connection: Callable[[], asyncio.BaseProtocol],
    host: str,
    port: int,
    backlog: int,
) -> tuple[asyncio.Server, tuple[str, int]]:
    """The server, and its address. It takes connections from `take_connections` on."""
    server = await loop.create_server(new_connection, host, port, backlog=backlog, start_serving=False)
    for end in server.sockets:
        if _is_loopback(end.getsockname()[0]):
            stop_pacing(end)
    address = server.sockets[0].getsockname()
    return server, (address[0], address[1])


async def take_connections(server: asyncio.Server) -> None:
    """From now on. OSError: another has the place. Linux lets many bind a port as long as nobody listens at it, so the
    second to listen is the first to be told: by asyncio. uvloop tells nobody, closes the socket and says it serves."""
    try:
        await server.start_serving()
        if not all(map(_listens, server.sockets)):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    except OSError:
        server.close()
        raise


def is_taking_connections(server: asyncio.Server | None) -> bool:
    """Its sockets are asked: uvloop may have closed them and still say that it serves."""
    return server is not None and server.is_serving() and all(map(_listens, server.sockets))


def _listens(end: socket.socket) -> bool:
    """An open one is believed where the system cannot tell, and so is one of a simulated network."""
    try:
        return end.fileno() >= 0 and end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) != 0
    except (OSError, AttributeError):
        return True


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") or host == "::1"


def stop_pacing(end: socket.socket) -> None:
    """Of whom this socket accepts from now on."""
    if _CONGESTION is None:
        return
    with suppress(OSError, AttributeError):  # without it all goes as well, only dearer; a simulated network has none
        if end.getsockopt(socket.IPPROTO_TCP, _CONGESTION, _NAME_BYTES).startswith(PACING):
            end.setsockopt(socket.IPPROTO_TCP, _CONGESTION, UNPACED)
