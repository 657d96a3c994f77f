"""Telling the process that started us how far we are, in systemd's way: a datagram to the socket that NOTIFY_SOCKET
names. Where there is none, nobody waits for it, and nothing is said."""

from __future__ import annotations

import contextlib
import os
import socket

READY, STOPPING = "READY=1", "STOPPING=1"


def tell(state: str) -> None:
    """Never an error: who cannot be told must not stop what is told."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.connect("\0" + address[1:] if address.startswith("@") else address)
        out.send(state.encode())
