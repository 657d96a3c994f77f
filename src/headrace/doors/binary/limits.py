"""The limits of the binary door: those of every door on plain TCP, and what its own broker's configuration adds."""

from __future__ import annotations

from headrace.doors.tcp.limits import DoorLimits


class BinaryLimits(DoorLimits, frozen=True):
    idle_ms: int = 300_000
    """As its clients know it; the heartbeats that they are sent count, so only who is gone is idle."""

    heartbeat_ms: int = 30_000
    """How often each client is sent a heartbeat; 0: never."""

    max_partitions: int = 0
    """Of a topic that is made through this door; 0: no bound but the broker's."""

    retention_ms: int = 0
    """Of a topic that is made through this door and does not say; 0: the broker's default."""

    max_message_bytes: int = 0
    """Of a message that is published through this door, as the frame that subscribers get; 0: the topic's bound."""
