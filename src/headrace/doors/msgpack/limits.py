"""What the msgpack door allows, each with its reason. All of them bound memory that a stranger could take."""

from __future__ import annotations

from headrace.doors.tcp.limits import DoorLimits

MIB = 1 << 20

MAX_COMMAND_BYTES = 1_000_000  # with what is put around its value, a record fits into what every topic takes by default
WAITING_BYTES = 8 * MIB  # of one slow subscriber; then it loses the oldest
ALL_WAITING_BYTES = 512 * MIB  # of all of them, though those of one topic share the bytes that are counted for each
READ_BYTES = (
    512 << 10
)  # what one read can bring, and so one write to each subscriber: with half, each delivery costs more
TURN_COST = 100  # runs and patterns of one client in a turn: some milliseconds, then others have theirs
TURN_CHARACTERS = 2_000_000  # of a long name, counted for each pattern that is tried: some milliseconds too
MAX_PATTERNS = 10_000  # of one connection; more are somebody's mistake
MAX_PATTERN_BYTES = 4 * MIB  # of all its patterns together


def msgpack_limits() -> DoorLimits:
    """A slow subscriber stays connected: only one that took nothing for an hour is taken for gone."""
    return DoorLimits(max_frame_bytes=MAX_COMMAND_BYTES, take_ms=3_600_000, all_unsent_bytes=1024 * MIB)
