"""Who is in a group: its members by id, the static ones by instance too, which protocols they share, and who leads.

Members keep the order in which they came: the first leads, unless it is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headrace.broker.groups.events import Protocols, Who
from headrace.broker.groups.member import Member
from headrace.errors import FencedMember, HeadraceError, UnknownMember


class Roster:
    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self.members: dict[str, Member] = {}
        self.leader: str | None = None
        self._instances: dict[str, str] = {}
        self._supported: Counter[str] = Counter()  # how many members have a protocol

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self.members

    @property
    def joining(self) -> int:
        """How many wait for the next generation."""
        return sum(member.joining is not None for member in self.members.values())

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

    def add(self, member: Member) -> None:
        self.members[member.id] = member
        self._supported.update(name for name, _ in member.protocols)
        if member.instance_id is not None:
            self._instances[member.instance_id] = member.id
        self.leader = self.leader or member.id

    def remove(self, member: Member) -> None:
        del self.members[member.id]
        self._supported.subtract(name for name, _ in member.protocols)
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def update(self, member: Member, protocols: Protocols, session_ms: int, rebalance_ms: int, who: Who) -> None:
        self._supported.subtract(name for name, _ in member.protocols)
        self._supported.update(name for name, _ in protocols)
        member.protocols, member.session_ms, member.rebalance_ms = protocols, session_ms, rebalance_ms
        member.joining = who

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
