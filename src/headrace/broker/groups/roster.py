"""Who is in a group: its members by id, the static ones by instance too, which protocols they share, and who leads.

Members keep the order in which they came: the first leads, unless it is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import inf

from headrace.broker.groups.events import Join, Protocols, Who
from headrace.broker.groups.member import Member
from headrace.broker.groups.sizes import member_bytes
from headrace.errors import FencedMember, HeadraceError, UnknownMember


class Roster:
    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self.members: dict[str, Member] = {}
        self.leader: str | None = None
        self._instances: dict[str, str] = {}
        self._supported: Counter[str] = Counter()  # how many members have a protocol
        self.joining = 0  # how many wait for the next generation
        self.members_bytes = self.assigned_bytes = 0
        self.soonest = inf  # nobody is taken for dead before

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self.members

    @property
    def rebalance_s(self) -> float:
        """The longest that any member may take to join."""
        return max((member.rebalance_ms for member in self.members.values()), default=0) / 1000

    def unknown(self, member_id: str, instance_id: str | None) -> HeadraceError | None:
        """Why this is no member; None: it is one."""
        if instance_id is not None:
            known = self._instances.get(instance_id)
            if known is None:
                return UnknownMember(f"group {self._group_id!r} has no static member {instance_id!r}")
            if known != member_id:
                return FencedMember(f"another process is static member {instance_id!r} of group {self._group_id!r}")
        if member_id not in self.members:
            return UnknownMember(f"{member_id!r} is not a member of group {self._group_id!r}")
        return None

    def static(self, instance_id: str) -> Member | None:
        known = self._instances.get(instance_id)
        return None if known is None else self.members[known]

    def add(self, member: Member, now: float) -> None:
        self.members[member.id] = member
        self._count(member, 1)
        self.assigned_bytes += len(member.assignment)
        self.joining += member.joining is not None
        self._expect(member, now)
        if member.instance_id is not None:
            self._instances[member.instance_id] = member.id
        self.leader = self.leader or member.id

    def remove(self, member: Member) -> None:
        del self.members[member.id]
        self._count(member, -1)
        self.assigned_bytes -= len(member.assignment)
        self.joining -= member.joining is not None
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def update(self, member: Member, event: Join, now: float) -> None:
        """It joins again, and may say something else than before."""
        self._count(member, -1)
        member.protocols, member.session_ms, member.rebalance_ms = event.protocols, event.session_ms, event.rebalance_ms
        self._count(member, 1)
        self.joining += member.joining is None
        member.joining = event.who
        self._expect(member, now)

    def answered(self, member: Member) -> Who:
        """It does not wait for the next generation any more; who is to be told."""
        who, member.joining = member.joining, None
        self.joining -= 1
        return who

    def give(self, member: Member, assignment: bytes) -> None:
        self.assigned_bytes += len(assignment) - len(member.assignment)
        member.assignment = assignment

    def overdue(self, now: float) -> list[Member]:
        """Those whose time is over. Who waits for an answer is heard of when it is given."""
        if self.soonest > now:
            return []
        dead = [member for member in self.members.values() if member.deadline <= now]
        for member in dead:
            member.deadline = inf
        self.soonest = inf
        for member in self.members.values():
            self._expect(member, now)
        return dead

    def _expect(self, member: Member, now: float) -> None:
        """Whenever it is heard of from now on, its time is over this late at the earliest."""
        self.soonest = min(self.soonest, member.deadline, now + member.session_ms / 1000)

    def _count(self, member: Member, sign: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self._supported[name] += sign
            if not self._supported[name]:
                del self._supported[name]
        if sign > 0:
            member.held_bytes = member_bytes(
                member.id, member.instance_id, member.client_id, member.client_host, member.protocols
            )
        self.members_bytes += sign * member.held_bytes

    def rename(self, member: Member, new_id: str) -> None:
        """The same member, in another process."""
        self.members = {new_id if known == member.id else known: one for known, one in self.members.items()}
        if self.leader == member.id:
            self.leader = new_id
        if member.instance_id is not None:
            self._instances[member.instance_id] = new_id
        member.id = new_id

    def elect(self) -> bool:
        """A leader that has joined: the one before, if it has. False: nobody has."""
        leader = self.members.get(self.leader or "")
        if leader is None or leader.joining is None:
            joined = next((member for member in self if member.joining is not None), None)
            if joined is None:
                return False
            self.leader = joined.id
        return True

    def supports(self, protocols: Protocols) -> bool:
        """Whether all members have one of these."""
        return any(self._supported[name] == len(self.members) for name, _ in protocols)

    def elected_protocol(self) -> str | None:
        """Of those that all have, the one that most like best."""
        common = {name for name, count in self._supported.items() if count == len(self.members)}
        votes = Counter(vote for member in self if (vote := member.vote(common)) is not None)
        return votes.most_common(1)[0][0] if votes else None
