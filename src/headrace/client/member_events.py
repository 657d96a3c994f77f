"""What happens to a member of a group, and what it wants done: the words between the machine in `member` and its
driver.

Every request has a turn, a number; its answer carries the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.client.memberships import NO_GENERATION
from headrace.client.values import TopicPartition

Partitions = tuple[TopicPartition, ...]


# What happens to a member


class Begin(NamedTuple):
    """It is to join: the first time, or because its program is back."""


class Tick(NamedTuple):
    """`due` has come."""


class JoinedMember(NamedTuple):
    id: str
    instance: str | None
    metadata: bytes


class Joined(NamedTuple):
    turn: int
    code: int
    member_id: str = ""
    generation: int = NO_GENERATION
    protocol: str = ""
    leader: str = ""
    members: Sequence[JoinedMember] = ()
    is_shared_out: bool = False  # by the leader before: this one has nothing to share out


class Counted(NamedTuple):
    """How many partitions the topics have that the group wants."""

    turn: int
    counts: Mapping[str, int]


class Synced(NamedTuple):
    turn: int
    code: int
    assignment: bytes = b""


class Beaten(NamedTuple):
    turn: int
    code: int


class Unanswered(NamedTuple):
    """The coordinator was not there, or the connection ended."""

    turn: int


class Revoked(NamedTuple):
    """What was asked for by the Revoke of that number is done."""

    number: int


class Wish(NamedTuple):
    """There are other topics to read."""

    topics: tuple[str, ...]


class Grown(NamedTuple):
    """Topics have so many partitions now."""

    counts: Mapping[str, int]


class Hung(NamedTuple):
    """The program has not come back for longer than it may."""


class End(NamedTuple):
    """It is to leave, for good."""


Event = Begin | Tick | Joined | Counted | Synced | Beaten | Unanswered | Revoked | Wish | Grown | Hung | End

# What is to be done


class AskJoin(NamedTuple):
    turn: int
    member_id: str
    protocols: tuple[tuple[str, bytes], ...]


class Count(NamedTuple):
    """Find out how many partitions these topics have."""

    turn: int
    topics: tuple[str, ...]


class AskSync(NamedTuple):
    turn: int
    member_id: str
    generation: int
    protocol: str
    shares: Mapping[str, bytes]


class AskBeat(NamedTuple):
    turn: int
    member_id: str
    generation: int


class AskLeave(NamedTuple):
    member_id: str


class Assign(NamedTuple):
    partitions: Partitions


class Revoke(NamedTuple):
    partitions: Partitions
    number: int


class Lose(NamedTuple):
    """All that is held, and is not ours any more; who holds it knows what that is."""

    partitions: Partitions = ()


class Fail(NamedTuple):
    """The group does not want this member, for a reason that does not pass."""

    code: int


Effect = AskJoin | Count | AskSync | AskBeat | AskLeave | Assign | Revoke | Lose | Fail
