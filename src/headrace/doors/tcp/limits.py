"""The limits of a door on plain TCP, each with its reason. All of them bound memory or time that a stranger could take.

A door has its own default for some of them; the node's settings can give each another value.
"""

from __future__ import annotations

import msgspec

KIB, MIB = 1 << 10, 1 << 20


class DoorLimits(msgspec.Struct, frozen=True):
    max_connections: int = 10_000
    """Each costs a file descriptor and some kilobytes. One more is told so and closed."""

    idle_ms: int = 0
    """A connection on which nothing moved in either direction for this long is closed; 0: never."""

    stall_ms: int = 30_000
    """A message that was begun and does not go on for this long gives its memory back: the connection is closed."""

    take_ms: int = 300_000
    """Who takes nothing of what waits for him for this long is gone, whatever the network says."""

    max_frame_bytes: int = 64 * MIB
    """The largest message that is taken; the door's own protocol says how one is counted."""

    frame_memory_bytes: int = 256 * MIB
    """Of messages that are on their way in, all connections together. Past it, the one begun first is closed."""

    unsent_bytes: int = MIB
    """Of one connection. Past it, it is full: it is not read, and subscriptions wait for room."""

    all_unsent_bytes: int = 256 * MIB
    """Of all connections together. Past it, those that take nothing at all are closed, the longest first."""

    max_in_flight: int = 1000
    """Requests of one connection that wait for their answer; past it, the connection is not read."""


SCRATCH_BYTES = 256 * KIB  # one for all connections of a door: what one read can bring
JOINED_BYTES = 64 * KIB  # what goes out together up to this is copied into one piece: cheaper than a vector of many
SOON_BYTES = 256 * KIB  # of one connection that wait for the turn's end; more goes out before it
SWEEP_S = 1.0  # how often time-outs are looked for; each is good to that much
LINGER_S = 2.0  # what a closed connection has to take its last bytes and go
DRAIN_S = 5.0  # what a stop gives requests that are under way,
DRAIN_STUCK = 25  # unless it sees so many times in a row that nobody takes anything
BACKLOG = 1024  # connects that the kernel holds for us while a turn runs
KEEPALIVE_IDLE_S, KEEPALIVE_EVERY_S, KEEPALIVE_COUNT = 60, 10, 6  # a silent peer is asked, and gone after two minutes
