"""One group: its members, its generations, and who may speak for it. A pure machine: (now, event) in, effects out.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance ...

- PreparingRebalance: members join, until a new generation begins (rebalance.py); its leader is told all members.
- CompletingRebalance: members sync. The leader's assignment is saved first; then every member gets its own.
- Who is late is removed: a member that sends no heartbeat within its session, one that does not sync within the
  rebalance timeout, one that was given an id and did not come back. Static members (with an instance id) keep their
  place and their assignment while their session lasts, in whichever process they come back; the older one is fenced.

Invariants after every step: a member is answered exactly once for each Join and each Sync; generations only rise; an
assignment is only ever given to members of the generation that it was made for; in Stable and CompletingRebalance there
is a leader, and it is a member.

The driver calls `step` again at `wake_at` at the latest. Time is any clock that does not go back.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from headrace.broker.groups.events import (
    Beaten,
    Effect,
    Event,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Leaver,
    Left,
    Saved,
    Snapshot,
    Sync,
    Synced,
    Tick,
    Who,
)
from headrace.broker.groups.generation import State
from headrace.broker.groups.member import Member
from headrace.broker.groups.rebalance import Rebalance
from headrace.broker.groups.settings import (
    MAX_GROUP_BYTES,
    MAX_MEMBER_BYTES,
    MAX_MEMBERS_BYTES,
    MAX_PENDING,
    NEW_MEMBER_S,
    GroupSettings,
)
from headrace.broker.groups.sizes import joining_bytes, names_bytes
from headrace.errors import (
    CoordinatorUnavailable,
    FencedMember,
    GroupDataTooLarge,
    GroupFull,
    HeadraceError,
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceInProgress,
)


class _Assigning(NamedTuple):
    """An assignment that is being saved."""

    generation: int
    assignments: dict[str, bytes]


class _Returning(NamedTuple):
    """A static member in a new process, which is being saved."""

    member_id: str
    who: Who
    leader: str  # as it was before
    may_skip: bool


class Group(Rebalance):
    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        super().__init__(group_id, settings)
        self._saving: dict[int, _Assigning | _Returning] = {}

    @classmethod
    def restored(cls, group_id: str, settings: GroupSettings, saved: Snapshot, now: float) -> Group:
        """As it was saved; its members have a session from now on to be heard of."""
        group = cls(group_id, settings)
        group.generation, group.protocol = saved.generation, saved.protocol
        group.protocol_type = saved.protocol_type or None
        for one in saved.members:
            member = Member.restored(one, saved.protocol or "")
            member.heard(now)
            group.roster.add(member, now)
        if saved.members:
            group.state = State.STABLE
            if saved.leader is not None and saved.leader in group.roster:
                group.roster.leader = saved.leader
        return group

    # The machine

    def step(self, now: float, event: Event) -> list[Effect]:
        self._now = now
        effects: list[Effect] = []
        self._effects = effects
        match event:
            case Heartbeat():
                self._heartbeat(event)
            case Join():
                self._join(event)
            case Sync():
                self._sync(event)
            case Leave():
                self._leave(event)
            case Saved():
                self._saved(event)
            case Tick():
                self._tick()
        self._effects = []  # who was told is let go, and with it what it was told
        return effects

    @property
    def wake_at(self) -> float:
        """Before it, time alone changes nothing; inf: never."""
        return min(self._join_by, self._sync_by, self.pending.soonest, self.roster.soonest)

    @property
    def held_bytes(self) -> int:
        """What it holds, as sizes.py counts it."""
        roster = self.roster
        names = names_bytes(self.id, self.protocol_type)
        return names + self.pending.held_bytes + roster.members_bytes + roster.assigned_bytes

    @property
    def is_vacant(self) -> bool:
        """It never had members: nothing of it need be kept."""
        return self.protocol_type is None and not self.pending

    # Heartbeats

    def _heartbeat(self, event: Heartbeat) -> None:
        error = self._unknown(event.member_id, event.instance_id, event.generation)
        if error is None:
            self.roster.members[event.member_id].heard(self._now)
            if self.state is State.PREPARING:
                error = RebalanceInProgress(f"group {self.id!r} begins a new generation")
        self._tell(event.who, Beaten(error))

    # Joining

    def _join(self, event: Join) -> None:
        member_id, roster, size = event.member_id, self.roster, joining_bytes(event)
        if size > MAX_MEMBER_BYTES:
            error: HeadraceError = GroupDataTooLarge(f"{size} bytes of one member; {MAX_MEMBER_BYTES} are the most")
            self._tell(event.who, Joined(error, member_id))
        elif not self._accepts(member_id):
            self._refuse(event, GroupFull(f"group {self.id!r} has as many members as it may"))
        elif lacking := self._lacks_room(event, size):
            self._refuse(event, lacking)
        elif not self._supports(event):
            error = InconsistentProtocol(f"nothing in common with group {self.id!r}, of type {self.protocol_type!r}")
            self._tell(event.who, Joined(error, member_id))
        elif not member_id:
            self._join_new(event)
        elif member_id in self.pending and event.instance_id is None:
            self._enter(member_id, event)
        elif unknown := roster.unknown(member_id, event.instance_id):
            self._tell(event.who, Joined(unknown, member_id))
        else:
            self._join_again(roster.members[member_id], event)

    def _accepts(self, member_id: str) -> bool:
        most, member = self._settings.max_size, self.roster.members.get(member_id)
        if self.state is State.EMPTY:
            return True
        if self.state is State.PREPARING:  # those who came first stay, if there are more than there may be now
            return (member is not None and member.joining is not None) or self.roster.joining < most
        return member is not None or len(self.roster) < most

    def _lacks_room(self, event: Join, size: int) -> HeadraceError | None:
        """Why no more can be kept of its members than is now. Who says no more than before is always taken."""
        known = self.roster.members.get(event.member_id)
        if known is None and event.instance_id is not None:
            known = self.roster.static(event.instance_id)
        more = size - (0 if known is None else known.held_bytes)
        if more > 0 and self.held_bytes + more > MAX_GROUP_BYTES:
            return GroupFull(
                f"members of group {self.id!r} say {self.held_bytes + more} bytes; {MAX_GROUP_BYTES} at most"
            )
        if more > 0 and more > event.room:
            return GroupFull(f"members of this node's groups say as much as they may: {MAX_MEMBERS_BYTES} bytes")
        return None

    def _refuse(self, event: Join, error: HeadraceError) -> None:
        self._tell(event.who, Joined(error))
        self.pending.discard(event.member_id)
        member = self.roster.members.get(event.member_id)
        if member is not None:
            self._forget(member)
            self._left()

    def _supports(self, event: Join) -> bool:
        if not self.roster.members:
            return bool(event.protocol_type) and bool(event.protocols)
        return event.protocol_type == self.protocol_type and self.roster.supports(event.protocols)

    def _join_new(self, event: Join) -> None:
        known = None if event.instance_id is None else self.roster.static(event.instance_id)
        if known is not None and self.held_bytes > event.room:
            self._tell(event.who, Joined(CoordinatorUnavailable("too much is being saved"), event.member_id))
        elif known is not None:
            self._return(known, event)
        elif event.instance_id is not None or not event.asks_twice:
            self._enter(event.new_id, event)
        elif len(self.pending) >= MAX_PENDING:
            self._tell(event.who, Joined(GroupFull(f"{MAX_PENDING} members are about to join group {self.id!r}")))
        else:
            self.pending.add(event.new_id, self._now + event.session_ms / 1000)
            self._tell(event.who, Joined(MemberIdRequired("join again with this member id"), event.new_id))

    def _enter(self, member_id: str, event: Join) -> None:
        if not self.roster.members:
            self.protocol_type = event.protocol_type
        self.pending.discard(member_id)
        member = Member.joined(member_id, event)
        member.deadline = self._now + NEW_MEMBER_S
        self.roster.add(member, self._now)
        self._grew = True
        self._rebalance()

    def _join_again(self, member: Member, event: Join) -> None:
        is_same = member.protocols == event.protocols
        if is_same and (
            self.state is State.COMPLETING or (self.state is State.STABLE and self.roster.leader != member.id)
        ):
            # Its answer was lost on the way, or nothing has changed for a follower: it gets what it had.
            member.heard(self._now)
            self._tell(event.who, self._joined(member))
        else:
            self._update(member, event)
            self._rebalance()

    def _return(self, member: Member, event: Join) -> None:
        """A static member in another process: it takes the place of the one before, with its assignment."""
        leader = self.roster.leader or ""
        fenced = FencedMember(f"another process is static member {member.instance_id!r} now")
        self._answer_join(member, Joined(fenced, member.id))
        self._answer_sync(member, Synced(fenced))
        if member.id in self._unsynced:
            self._unsynced = self._unsynced - {member.id} | {event.new_id}
        self.roster.rename(member, event.new_id)
        member.client_id, member.client_host = event.client_id, event.client_host
        self._update(member, event)
        member.heard(self._now)
        if self.state is State.STABLE and self.roster.elected_protocol() == self.protocol:
            self._saving[self._save()] = _Returning(member.id, event.who, leader, event.may_skip)
        else:
            self._rebalance()

    def _update(self, member: Member, event: Join) -> None:
        # It asks once more, on another connection: nobody reads the answer to the first.
        self._answer_join(member, Joined(RebalanceInProgress("joined again meanwhile"), member.id))
        self.roster.update(member, event, self._now)

    # Syncing

    def _sync(self, event: Sync) -> None:
        error = self._unknown(event.member_id, event.instance_id, event.generation) or self._stranger(event)
        if error is None and self.state is State.PREPARING:
            error = RebalanceInProgress(f"group {self.id!r} begins a new generation")
        error = error or self._gives_too_much(event)
        if error is not None:
            self._tell(event.who, Synced(error))
            return
        member = self.roster.members[event.member_id]
        self._unsynced.discard(member.id)
        if not self._unsynced:
            self._sync_by = inf
        if self.state is State.STABLE:
            member.heard(self._now)
            self._tell(event.who, self._synced(member))
            return
        self._answer_sync(member, Synced(RebalanceInProgress("synced again meanwhile")))
        member.syncing = event.who
        if self.roster.leader == member.id and not self._is_assigning():
            given = {known: event.assignments.get(known, b"") for known in self.roster.members}
            self._saving[self._save(given)] = _Assigning(self.generation, given)

    def _gives_too_much(self, event: Sync) -> HeadraceError | None:
        if self.state is not State.COMPLETING or self.roster.leader != event.member_id:
            return None  # what it brings is not looked at
        given = sum(len(one) for known, one in event.assignments.items() if known in self.roster)
        size = self.held_bytes - self.roster.assigned_bytes + given
        if size > MAX_GROUP_BYTES:
            return GroupDataTooLarge(f"{size} bytes of group {self.id!r}; {MAX_GROUP_BYTES} are the most")
        if given + size > event.room:  # to hold, and to save
            return CoordinatorUnavailable("too much is being saved")
        return None

    def _stranger(self, event: Sync) -> HeadraceError | None:
        for said, known in ((event.protocol_type, self.protocol_type), (event.protocol, self.protocol)):
            if said is not None and said != known:
                return InconsistentProtocol(f"group {self.id!r} has {known!r}, not {said!r}")
        return None

    def _is_assigning(self) -> bool:
        return any(isinstance(one, _Assigning) and one.generation == self.generation for one in self._saving.values())

    def _saved(self, event: Saved) -> None:
        waiting = self._saving.pop(event.ticket, None)
        unsaved = None if event.error is None else CoordinatorUnavailable(f"it cannot be kept: {event.error}")
        if isinstance(waiting, _Assigning):
            if waiting.generation == self.generation and self.state is State.COMPLETING:
                self._assign(waiting.assignments, unsaved)
        elif isinstance(waiting, _Returning):
            member = self.roster.members.get(waiting.member_id)
            if member is not None and member.joining is waiting.who and self.state is State.STABLE:
                self._answer_join(
                    member, Joined(unsaved) if unsaved else self._returned(member, waiting.leader, waiting.may_skip)
                )
                member.heard(self._now)

    def _assign(self, assignments: dict[str, bytes], unsaved: HeadraceError | None) -> None:
        if unsaved is None:
            self.state = State.STABLE
        for member in self.roster:
            self.roster.give(member, assignments.get(member.id, b"") if unsaved is None else b"")
            if member.syncing is not None:
                self._answer_sync(member, Synced(unsaved) if unsaved else self._synced(member))
                member.heard(self._now)
        if unsaved is not None:
            self._rebalance()

    # Leaving, and not being heard of

    def _leave(self, event: Leave) -> None:
        errors = [self._leaves(leaver) for leaver in event.members]
        self._tell(event.who, Left(errors))
        if any(error is None for error in errors):
            self._left()

    def _leaves(self, leaver: Leaver) -> HeadraceError | None:
        """By id, by both, or, from an administrator, by instance alone."""
        member_id = leaver.member_id
        if not member_id and leaver.instance_id is not None and (known := self.roster.static(leaver.instance_id)):
            member_id = known.id
        if self.pending.discard(member_id):
            return None
        error = self.roster.unknown(member_id, leaver.instance_id)
        if error is None:
            self._forget(self.roster.members[member_id])
        return error

    def _tick(self) -> None:
        now = self._now
        late = self.pending.discard_late(now)
        gone = [member for member in self.roster.overdue(now) if member.is_new or not member.is_waiting]
        for member in gone:
            self._forget(member)
        if gone or (late and self.state is State.PREPARING):
            self._left()
        if self._join_by <= now:
            self._join_time_is_over()
        if self._sync_by <= now:
            self._sync_by = inf
            for member in [self.roster.members[known] for known in self._unsynced]:
                self._forget(member)
            self._left()
