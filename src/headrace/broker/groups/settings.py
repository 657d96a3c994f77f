"""What the coordinator of groups is told by its node, under Kafka's names where Kafka has them (see node/settings)."""

from __future__ import annotations

import msgspec

MAX_INT = (1 << 31) - 1


class GroupSettings(msgspec.Struct, frozen=True):
    min_session_ms: int = 1_000  # half a dozen heartbeats of an eager client; Kafka's 6,000 keeps tests waiting
    max_session_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    max_size: int = MAX_INT
    metadata_max_bytes: int = 4096
    retention_minutes: int = 7 * 24 * 60
    retention_check_ms: int = 600_000
    topic_partitions: int = 50
    topic_segment_bytes: int = 100 << 20


MAX_GROUPS = 100_000  # of one node, with a few kilobytes each; more are refused
MAX_BARE_GROUPS = 10_000  # without members and positions, as a join alone makes them; the oldest make room
MAX_MEMBER_BYTES = 4 << 20  # names, and what it says under all its protocols: tens of thousands of topics
MAX_GROUP_BYTES = (8 << 20) - (128 << 10)  # members with their assignments; with the longest names, one batch's most
MAX_MEMBERS_BYTES = 256 << 20  # of all groups of one node together, with what is being saved
MAX_POSITIONS = 1_000_000  # of one node, with half a kilobyte each, those that wait for a transaction included
MAX_TEXT_BYTES = 128 << 20  # of one node, beside positions
MAX_PENDING = 10_000  # members of a group that were given an id and have not come back with it
NEW_MEMBER_S = 300.0  # a new member that cannot send heartbeats yet waits this long for its first generation
