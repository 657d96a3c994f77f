"""Ports that stay ours while a broker under test is down.

A socket that is bound and does not listen keeps the port: connects to it are refused, and nobody else is given it,
neither a listener that asks for any free port nor an outgoing connection. The broker's own listener may join it, on
Linux. Elsewhere the number is only remembered.
"""

from __future__ import annotations

import socket
import sys

CAN_SHARE = sys.platform == "linux"


class ReservedPort:
    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, 0))
        except OSError:
            self._socket.close()
            raise
        self.number: int = self._socket.getsockname()[1]
        if not CAN_SHARE:
            self._socket.close()

    @property
    def descriptor(self) -> int:
        return self._socket.fileno()

    def release(self) -> None:
        self._socket.close()
