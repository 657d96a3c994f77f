"""A group as its members are told of it: the generation, its state and protocol, who is in it; and what is kept of it.

Nothing here changes who is a member or which generation it is: that is group.py, which stands on this.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from headrace.broker.groups.events import (
    Answer,
    Effect,
    Joined,
    JoinedMember,
    Save,
    Snapshot,
    Synced,
    Tell,
    Who,
)
from headrace.broker.groups.member import Member
from headrace.broker.groups.roster import Roster
from headrace.broker.groups.subscription import CONSUMER, all_topics
from headrace.errors import HeadraceError, IllegalGeneration, RebalanceInProgress, UnknownMember


class State(Enum):
    """As Kafka's tools know them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class Generation:
    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.state = State.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None  # None: never had members
        self.protocol: str | None = None
        self.roster = Roster(group_id)
        self._effects: list[Effect] = []
        self._tickets = 0

    # Questions

    def subscribed_topics(self) -> set[str] | None:
        """What its members read; None: not known, or not a thing of this group's protocol."""
        if not self.roster.members:
            return set()
        if self.protocol_type != CONSUMER or self.protocol is None:
            return None
        return all_topics(member.metadata(self.protocol) for member in self.roster)

    def check_commit(
        self, now: float, member_id: str, instance_id: str | None, generation: int, *, in_transaction: bool = False
    ) -> HeadraceError | None:
        """Whether these may not commit positions. A commit is a sign of life."""
        if generation < 0 and self.state is State.EMPTY:
            return None  # who reads without a group's help, or an administrator
        if generation >= 0 or member_id or instance_id is not None:
            if error := self._unknown(member_id, instance_id, generation):
                return error
        elif not in_transaction:
            return UnknownMember(f"group {self.id!r} has members, and only they commit positions")
        if in_transaction:
            return None
        if self.state is State.COMPLETING:
            return RebalanceInProgress(f"group {self.id!r} gives out partitions anew")
        if member_id:
            self.roster.members[member_id].heard(now)
        return None

    def _unknown(self, member_id: str, instance_id: str | None, generation: int) -> HeadraceError | None:
        """Why this is not a member of the present generation; None: it is."""
        error = self.roster.unknown(member_id, instance_id)
        if error is None and generation != self.generation:
            error = IllegalGeneration(f"group {self.id!r} is at generation {self.generation}, not {generation}")
        return error

    # What members are told

    def _tell(self, who: Who, answer: Answer) -> None:
        self._effects.append(Tell(who, answer))

    def _answer_join(self, member: Member, answer: Joined) -> None:
        if member.joining is not None:
            self._tell(self.roster.answered(member), answer)

    def _answer_sync(self, member: Member, answer: Synced) -> None:
        if member.syncing is not None:
            who, member.syncing = member.syncing, None
            self._tell(who, answer)

    def _joined(self, member: Member) -> Joined:
        leader = self.roster.leader or ""
        members = self._for_leader() if member.id == leader else ()
        return Joined(None, member.id, self.generation, self.protocol_type, self.protocol, leader, members)

    def _returned(self, member: Member, former_leader: str, may_skip: bool) -> Joined:
        """For a static member in a new process, while the generation goes on. A leader that cannot be told that there
        is nothing to assign is not told that it leads."""
        joined = self._joined(member)
        if member.id != joined.leader:
            return joined
        if may_skip:
            return joined._replace(skip_assignment=True)
        return joined._replace(leader=former_leader, members=())

    def _synced(self, member: Member) -> Synced:
        return Synced(None, member.assignment, self.protocol_type, self.protocol)

    def _for_leader(self) -> tuple[JoinedMember, ...]:
        return tuple(JoinedMember(one.id, one.instance_id, one.metadata(self.protocol)) for one in self.roster)

    def let_go(self, error: HeadraceError) -> list[Effect]:
        """Answers all who wait: this node is not going to do it."""
        effects: list[Effect] = []
        self._effects = effects
        for member in self.roster:
            self._answer_join(member, Joined(error, member.id))
            self._answer_sync(member, Synced(error))
        self._effects = []
        return effects

    # What is kept

    def _save(self, assignments: Mapping[str, bytes] | None = None) -> int:
        """As it is now; with assignments, as it will be when they are kept. The ticket with which it is told so."""
        self._tickets += 1
        self._effects.append(Save(self._tickets, self.snapshot(assignments)))
        return self._tickets

    def snapshot(self, assignments: Mapping[str, bytes] | None = None) -> Snapshot:
        members = tuple(
            one.saved(self.protocol, one.assignment if assignments is None else assignments.get(one.id, b""))
            for one in self.roster
        )
        return Snapshot(self.protocol_type or "", self.generation, self.protocol, self.roster.leader, members)
