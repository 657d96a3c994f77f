"""A queue: its partitions' records, one member for each. A pure machine: (now, event) in, effects out.

    ready -> locked by a member -> settled                           it acknowledged
                                -> waiting -> ready -> locked ...    it released, was silent for too long, or left
                                -> dying -> settled                  it rejected, or that was the last attempt

- A record is locked by one member at a time, and only that one may settle it. Who comes too late settles nothing.
- A record that is given up is settled when it is safe in the dead-letter topic, not before.
- At most once: what is to be delivered is settled, then kept, and then it goes out; nothing else ever locks.
- What was acknowledged is told to be when it is kept (keeping.py).
- Nothing is read, and nothing ready stays in memory, while there are no members.

The driver calls `step` again at `wake_at` at the latest. Time is any clock that does not go back.
"""

from __future__ import annotations

from math import inf

from headrace.broker.queues.events import (
    Acknowledge,
    Buried,
    Bury,
    Came,
    Cut,
    Deliver,
    Effect,
    Event,
    Flush,
    Full,
    Join,
    Leave,
    Lost,
    More,
    NotRead,
    Reach,
    Read,
    Reject,
    Release,
    Renew,
    Reopen,
    Resume,
    Saved,
    Tick,
    Trimmed,
)
from headrace.broker.queues.members import Member
from headrace.broker.queues.settings import CLAIM_BYTES, CLAIM_RECORDS, READ_BYTES, RETRY_S
from headrace.broker.queues.settling import Settling
from headrace.broker.queues.window import State, Window

TIMED_OUT = "no acknowledgement in time"
LEFT = "the member left"
READ_BACK = "the last attempt had not ended when the queue was read back"


class Machine(Settling):
    # The machine

    def step(self, now: float, event: Event) -> list[Effect]:
        self._now, self._effects, self._batches = now, [], {}
        used = sum(window.bytes for window in self.windows.values())
        match event:
            case Came():
                self._came(event)
            case Acknowledge(member, places, who):
                self._settle_each(member, places, who, self._acknowledge)
            case Release(member, places, who):
                self._release(member, places, who)
            case Reject(member, places, reason, who):
                self._settle_each(member, places, who, lambda window, entry: self._reject(window, entry, reason))
            case Renew(member, places):
                self._renew(member, places)
            case Saved():
                self._saved(event)
            case More(partition):
                self.windows[partition].is_at_end = False
            case Join(number, max_records, max_bytes):
                self.members.add(Member(number, max_records, max_bytes))
            case Leave(number):
                self._leave(number)
            case Full(number):
                self._set_full(number, True)
            case Resume(number):
                self._set_full(number, False)
            case Buried():
                self._buried(event)
            case NotRead(partition):
                window = self.windows[partition]
                window.is_reading, window.read_again_at = False, now + RETRY_S
            case Trimmed(partition, start_offset):
                self._trimmed(self.windows[partition], start_offset)
            case Cut(partition, end_offset):
                self._cut(self.windows[partition], end_offset)
            case Reopen(places, who):
                self._reopen(places, who)
            case Flush(who):
                self._flush(who)
            case Reach():
                self._reach(event)
            case Tick():
                self._tick()
        self._pump()
        for number, batch in self._batches.items():
            self.counts.delivered += len(batch)
            self._effects.append(Deliver(number, batch))
        self._tell_reached()
        self.budget.used += sum(window.bytes for window in self.windows.values()) - used
        return self._effects

    @property
    def wake_at(self) -> float:
        """When time alone changes something, at the earliest; inf: never."""
        at = inf
        for window in self.windows.values():
            at = min(at, window.timed_at, window.save_again_at)
            if window.locks:
                at = min(at, window.locked_since + self.policy.lock_s)
            if self.members:
                at = min(at, window.read_again_at)
        return at

    # Members

    def _leave(self, number: int) -> None:
        """What it may have died of counts as an attempt: of each partition the oldest that it had, and what it asked
        more time for. The others it was given ahead, and had not come to."""
        if self.members.remove(number) is None:
            return
        for window in self.windows.values():
            held = window.held_by(number)
            for entry in held[1:]:
                if not entry.is_renewed:
                    entry.attempts -= 1
            self._failed(window, held, LEFT, at_once=True)
            if not self.members:
                self._nobody_is_left(window)

    def _nobody_is_left(self, window: Window) -> None:
        if window.claimed:
            window.unclaim(window.claimed)
            window.claimed = []
            self._changed(window)
        window.forget_ready()

    def _set_full(self, number: int, is_full: bool) -> None:
        member = self.members.by_number.get(number)
        if member is not None:
            member.is_full = is_full

    # Time

    def _tick(self) -> None:
        now = self._now
        for window in self.windows.values():
            late = window.expired(now, self.policy.lock_s)
            self.counts.timed_out += len(late)
            self._failed(window, late, TIMED_OUT)
            due = window.due(now)
            window.put_back([entry for entry in due if entry.state is State.WAITING])
            for entry in due:
                if entry.state is State.DYING:
                    window.put_aside(entry, State.DYING, inf)
                    self._effects.append(Bury(window.partition, entry.record, entry.attempts, entry.reason))
            if window.save_again_at <= now:
                window.save_again_at = inf
                self._save(window)
            if window.read_again_at <= now:
                window.read_again_at = inf
            if not self.members:
                window.forget_ready()

    # Reading and dispatching

    def _came(self, event: Came) -> None:
        window = self.windows[event.partition]
        window.is_reading = False
        window.is_at_end = event.is_end and event.from_offset <= window.fresh_at  # else it is read again
        found = window.came(event.from_offset, event.records, event.next_offset)
        if self.policy.max_attempts:
            spent = {entry.record.offset for entry in found if self._is_last(entry)}
            if spent:
                window.take_from_ready(spent)
                for offset in spent:
                    self._give_up(window, window.entries[offset], READ_BACK)
        if not self.members:
            window.forget_ready()

    def _trimmed(self, window: Window, start_offset: int) -> None:
        lost = window.trim(start_offset)
        if lost:
            self.counts.lost += lost
            self._effects.append(Lost(window.partition, lost))
            self._changed(window)

    def _cut(self, window: Window, end_offset: int) -> None:
        for entry in window.cut(end_offset):
            self._let_go(entry)
        self._changed(window)

    def _pump(self) -> None:
        if not self.members:
            return
        windows = list(self.windows.values())
        if len(windows) > 1:
            self._first = (self._first + 1) % len(windows)
            windows = windows[self._first :] + windows[: self._first]
        dispatch = self._claim if self.policy.at_most_once else self._dispatch
        for window in windows:
            if window.ready:
                dispatch(window)
        for window in windows:
            has_more = window.unread or not window.is_at_end
            if has_more and not (window.ready or window.is_reading) and window.read_again_at == inf:
                self._read(window)

    def _read(self, window: Window) -> None:
        has_room = window.bytes < self.policy.bytes and window.in_flight < self.policy.records
        if self.budget.used >= self.budget.limit and window.bytes:
            has_room = False
        if has_room and not window.claimed and self.members.any_has_room():
            window.is_reading = True
            self._effects.append(Read(window.partition, window.read_at, READ_BYTES))

    def _dispatch(self, window: Window) -> None:
        now, next_member = self._now, self.members.next
        for _ in range(min(len(window.ready), self.policy.records - window.in_flight)):
            member = next_member()
            if member is None:
                return
            entry = window.lock_next(member.number, now)
            member.held += 1
            member.bytes += entry.size
            self._batch(member, window, entry)

    def _claim(self, window: Window) -> None:
        """At most once: settled first, and kept, and then delivered."""
        if window.claimed or window.save_again_at != inf or not self.members.any_has_room():
            return
        size = 0
        while window.ready and len(window.claimed) < CLAIM_RECORDS and size < CLAIM_BYTES:
            size += window.claim_next().size
        self._changed(window)
