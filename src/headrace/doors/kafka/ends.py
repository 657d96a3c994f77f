"""What a connection asks of its two ends: where they are, and that bytes go out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headrace.doors.kafka.limits import JOINED_BYTES
from headrace.ports import Buffer


def end_of(address: object) -> tuple[str, int]:
    """Host and port, of what a transport calls an address."""
    match address:
        case (str(host), int(port), *_):
            return host, port
        case _:
            return str(address or ""), 0


def send(transport: asyncio.Transport, out: Sequence[Buffer]) -> None:
    """Many short answers cost less as one."""
    if sum(map(len, out)) <= JOINED_BYTES:
        transport.write(b"".join(out))
    else:
        transport.writelines(out)
