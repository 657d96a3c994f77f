"""What a queue's machine keeps, and when: of each partition one save is under way at a time, and takes along all that
happened until it began. Whoever asked for what it holds is told when it is kept.

At most once: records that are settled go out when that is kept. If it cannot be, they did not go out.
"""

from __future__ import annotations

from collections import deque
from math import inf

from headrace.broker.queues.counts import Budget, Counts
from headrace.broker.queues.events import Delivery, Effect, Reach, Save, Saved, Snapshot, Tell, Who
from headrace.broker.queues.members import Member, Members
from headrace.broker.queues.settings import RETRY_S, Policy
from headrace.broker.queues.window import Asked, Entry, Window
from headrace.errors import HeadraceError


class Keeping:
    def __init__(self, policy: Policy, budget: Budget | None = None) -> None:
        self.policy, self.budget = policy, budget or Budget()
        self.members = Members()
        self.windows: dict[int, Window] = {}
        self.counts = Counts()
        self._effects: list[Effect] = []
        self._reaching: deque[Reach] = deque()  # ends only rise: whoever came first is told first
        self._batches: dict[int, list[Delivery]] = {}
        self._now = 0.0
        self._first = 0  # which partition is dispatched first: each in turn

    def open(self, partition: int, snapshot: Snapshot) -> None:
        """A partition that the queue has from now on; tell it More to begin."""
        self.windows[partition] = Window(partition, snapshot)

    def let_go(self, error: HeadraceError) -> list[Effect]:
        """Of all partitions, for good: whoever waits is told why. Members stay."""
        asked: dict[Asked, None] = {}
        for window in self.windows.values():
            asked |= dict.fromkeys((*window.saving_for, *window.asking))
            self.budget.used -= window.bytes
        self.windows.clear()
        for member in self.members:
            member.held = member.bytes = 0
        told = [*(one.who for one in asked), *(one.who for one in self._reaching)]
        self._reaching.clear()
        return [Tell(who, error) for who in told]

    def begin_save(self, partition: int) -> Snapshot:
        """What is to be kept now; then tell it Saved."""
        window = self.windows[partition]
        window.is_dirty = window.is_save_asked = False
        window.is_saving = True
        window.saving_for, window.asking = window.asking, []
        window.leaving, window.claimed = window.claimed, []
        return window.snapshot()

    def _changed(self, window: Window, asked: Asked | None = None) -> None:
        if asked is not None:
            window.asking.append(asked)
        window.is_dirty = True
        self._save(window)

    def _save(self, window: Window) -> None:
        """Soon, unless one is under way, was asked for, or has to wait."""
        if window.is_dirty and not (window.is_saving or window.is_save_asked) and window.save_again_at == inf:
            window.is_save_asked = True
            self._effects.append(Save(window.partition))

    def _flush(self, who: Who) -> None:
        busy = [window for window in self.windows.values() if window.is_dirty or window.is_saving]
        asked = Asked(who, len(busy))
        for window in busy:
            (window.asking if window.is_dirty else window.saving_for).append(asked)
        if not busy:
            self._effects.append(Tell(who, None))

    def _reach(self, event: Reach) -> None:
        for partition, end_offset in event.ends.items():
            window = self.windows.get(partition)
            if window is not None and window.fresh_at < end_offset:
                window.is_at_end = False  # it is there, whether or not we were woken for it yet
        self._reaching.append(event)

    def _tell_reached(self) -> None:
        """Behind what goes out. Nobody waits for what nobody has room for, or what cannot be read or kept."""
        while self._reaching and all(self._is_reached(*end) for end in self._reaching[0].ends.items()):
            self._effects.append(Tell(self._reaching.popleft().who, None))

    def _is_reached(self, partition: int, end_offset: int) -> bool:
        window = self.windows.get(partition)
        return window is None or not self.members or not window.is_moving or window.has_sent(end_offset)

    def _saved(self, event: Saved) -> None:
        window = self.windows[event.partition]
        window.is_saving = False
        told, window.saving_for = window.saving_for, []
        leaving, window.leaving = window.leaving, []
        for asked in told:
            asked.left -= 1
            asked.error = asked.error or event.error
            if not asked.left:
                self._effects.append(Tell(asked.who, asked.error))
        if event.error is not None:
            window.unclaim(leaving)
            window.is_dirty, window.save_again_at = True, self._now + RETRY_S
            if not self.members:
                window.forget_ready()
            return
        if leaving and not self.members:  # they did not go out: somebody who comes later gets them
            window.unclaim(leaving)
            window.forget_ready()
            self._changed(window)
        else:
            for entry in leaving:
                self._batch(self.members.next_even_if_full(), window, entry)
        self._save(window)

    # What goes out

    def _batch(self, member: Member, window: Window, entry: Entry) -> None:
        batch = self._batches.get(member.number)
        if batch is None:
            batch = self._batches[member.number] = []
        batch.append(Delivery(window.partition, entry.record, entry.attempts))
        if entry.attempts > 1:
            self.counts.redelivered += 1
