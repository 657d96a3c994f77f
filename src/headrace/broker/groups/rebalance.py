"""The way from one generation of a group to the next: members join, until all have or the time is over.

- It ends when every known member has joined and nobody is about to who was given an id; or when the longest rebalance
  timeout of its members is over: dynamic members that did not come are then out, static ones stay.
- In a group that was empty it may begin with a delay, which grows as long as members come, so that the first does not
  get everything only to give it away again.
"""

from __future__ import annotations

from math import inf

from headrace.broker.groups.events import Joined, Synced
from headrace.broker.groups.generation import Generation, State
from headrace.broker.groups.member import Member
from headrace.broker.groups.pending import Pending
from headrace.broker.groups.settings import GroupSettings
from headrace.errors import RebalanceInProgress, UnknownMember

MAX_GENERATION = (1 << 31) - 1


class Rebalance(Generation):
    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        super().__init__(group_id)
        self._settings = settings
        self.pending = Pending()
        self._unsynced: set[str] = set()
        self._is_initial = False  # it began in an empty group, and waits for more to come
        self._grew = False  # somebody came since that wait began
        self._initial_left_s = 0.0
        self._join_by = self._sync_by = inf
        self._now = 0.0

    def _rebalance(self) -> None:
        """Begins one; or, where one is under way, looks whether all have joined."""
        if self.state is State.PREPARING:
            self._complete_join_if_all()
            return
        if self.state is State.COMPLETING:
            again = RebalanceInProgress(f"group {self.id!r} begins a new generation")
            for member in self.roster:
                self.roster.give(member, b"")
                self._answer_sync(member, Synced(again))
        delay_s = self._settings.initial_rebalance_delay_ms / 1000
        self._is_initial = self.state is State.EMPTY and delay_s > 0
        self.state, self._sync_by = State.PREPARING, inf
        timeout_s = self.roster.rebalance_s
        if self._is_initial:
            self._grew = False
            self._join_by, self._initial_left_s = self._now + delay_s, max(timeout_s - delay_s, 0.0)
        else:
            self._join_by = self._now + timeout_s
            self._complete_join_if_all()

    def _complete_join_if_all(self) -> None:
        if not self._is_initial and not self.pending and self.roster.joining == len(self.roster):
            self._complete_join()

    def _join_time_is_over(self) -> None:
        if self._is_initial and self._grew and self._initial_left_s > 0:  # as long as some come, more may
            delay_s = min(self._settings.initial_rebalance_delay_ms / 1000, self._initial_left_s)
            self._grew = False
            self._join_by, self._initial_left_s = self._now + delay_s, self._initial_left_s - delay_s
        else:
            self._complete_join()

    def _complete_join(self) -> None:
        roster = self.roster
        for member in [one for one in roster if one.joining is None and one.instance_id is None]:
            self._forget(member)
        if roster.members and not roster.elect():  # static ones alone, none of which came: they may still
            self._join_by = self._now + roster.rebalance_s
            return
        self._join_by, self._is_initial = inf, False
        self.generation = self.generation + 1 if self.generation < MAX_GENERATION else 1
        self._unsynced = set(roster.members)
        self.protocol = roster.elected_protocol()
        if not roster.members:
            self.state = State.EMPTY
            self._save()
            return
        self.state = State.COMPLETING
        self._sync_by = self._now + roster.rebalance_s
        for member in roster:
            self._answer_join(member, self._joined(member))
            member.is_new = False
            member.heard(self._now)

    def _left(self) -> None:
        """Somebody is gone: what was waited for may be complete, or the rest share what was the gone ones'."""
        if self.state is not State.EMPTY:
            self._rebalance()

    def _forget(self, member: Member) -> None:
        gone = UnknownMember(f"{member.id!r} is not a member of group {self.id!r} any more")
        self._answer_join(member, Joined(gone))
        self._answer_sync(member, Synced(gone))
        self._unsynced.discard(member.id)
        self.roster.remove(member)
