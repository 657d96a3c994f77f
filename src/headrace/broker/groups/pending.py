"""Ids that were given to new members of a group who have not come back with them yet, and until when each is good."""

from __future__ import annotations

from math import inf

from headrace.broker.groups.sizes import pending_bytes


class Pending:
    __slots__ = ("_until", "held_bytes", "soonest")

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self.held_bytes = 0
        self.soonest = inf  # none is late before

    def __len__(self) -> int:
        return len(self._until)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._until

    def add(self, member_id: str, until: float) -> None:
        self._until[member_id] = until
        self.held_bytes += pending_bytes(member_id)
        self.soonest = min(self.soonest, until)

    def discard(self, member_id: str) -> bool:
        """Whether it was there."""
        if self._until.pop(member_id, None) is None:
            return False
        self.held_bytes -= pending_bytes(member_id)
        return True

    def discard_late(self, now: float) -> bool:
        """Whether there were any."""
        if self.soonest > now:
            return False
        late = [known for known, until in self._until.items() if until <= now]
        for known in late:
            self.discard(known)
        self.soonest = min(self._until.values(), default=inf)
        return bool(late)

    def clear(self) -> None:
        self._until.clear()
        self.held_bytes, self.soonest = 0, inf
