"""What a group is told and what it answers: the events and effects of the machine in group.py.

`who` is whatever the driver wants the answer handed to; the machine only keeps it and gives it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from headrace.errors import HeadraceError

Who = object
Protocols = tuple[tuple[str, bytes], ...]  # name and what the member says under it, the dearest first

NO_GENERATION = -1


# Events


class Join(NamedTuple):
    who: Who
    member_id: str  # empty: a new one
    new_id: str  # the id that a new one gets
    protocol_type: str
    protocols: Protocols
    session_ms: int
    rebalance_ms: int
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    asks_twice: bool = True  # a new member is first given its id, and joins with it: since version 4
    may_skip: bool = True  # a returning leader is told that there is nothing to assign: since version 9
    room: float = inf  # bytes that the node may still hold


class Sync(NamedTuple):
    who: Who
    member_id: str
    generation: int
    assignments: Mapping[str, bytes] = {}  # the leader's
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    room: float = inf  # bytes that the node may still hold


class Heartbeat(NamedTuple):
    who: Who
    member_id: str
    generation: int
    instance_id: str | None = None


class Leaver(NamedTuple):
    member_id: str
    instance_id: str | None = None


class Leave(NamedTuple):
    who: Who
    members: Sequence[Leaver]


class Saved(NamedTuple):
    """What `Save` asked for is on disk, or never will be."""

    ticket: int
    error: HeadraceError | None = None


class Tick(NamedTuple):
    """Time has passed: at the latest when the group's `wake_at` says."""


Event = Join | Sync | Heartbeat | Leave | Saved | Tick


# Effects


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    error: HeadraceError | None
    member_id: str = ""
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()  # for the leader alone
    skip_assignment: bool = False


class Synced(NamedTuple):
    error: HeadraceError | None
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


class Left(NamedTuple):
    errors: Sequence[HeadraceError | None]  # in the order of those who left


class Beaten(NamedTuple):
    error: HeadraceError | None


Answer = Joined | Synced | Left | Beaten


class Tell(NamedTuple):
    who: Who
    answer: Answer


class SavedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_ms: int
    session_ms: int
    subscription: bytes
    assignment: bytes


class Snapshot(NamedTuple):
    """A group as it is kept."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[SavedMember, ...]


class Save(NamedTuple):
    """To be written; then the group is told `Saved`."""

    ticket: int
    snapshot: Snapshot


Effect = Tell | Save
