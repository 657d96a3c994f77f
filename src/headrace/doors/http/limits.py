"""The limits of the HTTP door, each with its reason. All of them bound memory or time that a stranger could take."""

from __future__ import annotations

import msgspec

KIB, MIB = 1 << 10, 1 << 20


class HttpLimits(msgspec.Struct, frozen=True):
    max_connections: int = 10_000
    """Each costs a file descriptor and some 10 KiB, 20 while a poll waits on it. More are told so and closed."""

    header_bytes: int = 16 * KIB
    """Of a request's first line and headers that are not whole yet. What one read brought whole is taken."""

    body_bytes: int = 8 * MIB
    """Of a request's body: a record of the usual largest size, with every byte of it escaped, and many small ones."""

    bodies_bytes: int = 64 * MIB
    """Of all bodies that are here at a time. Who comes then is told to come again."""

    answers_bytes: int = 64 * MIB
    """Of all records that are on their way out at a time. The less is left, the smaller a page becomes."""

    page_bytes: int = MIB
    """Of records that are read for one page, unless a single one is larger."""

    turn_s: float = 60.0
    """What a client may take to send its whole request, from the answer before it (or from connecting) on; and what it
    may let pass without taking anything of an answer."""


SWEEP_S = 1.0  # how often time-outs are looked for; each is good to that much
DRAIN_S = 2.0  # what a stop gives requests that are under way,
DRAIN_LOOKS = 200  # seeing so many times in it whether they are done
BACKLOG = 128  # connects that the kernel holds for us while a turn runs
