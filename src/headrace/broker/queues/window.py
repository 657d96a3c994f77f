"""One partition of a queue: which of its records are settled, and what of the others is where.

    settled | start: unread, ready, locked, waiting, dying, and settled ones between | fresh_at: nothing was read yet

- Entries are records in memory, in order of their offsets. Unread ones are not settled and not in memory: after a
  restart, or when everybody had left.
- An offset before `fresh_at` that is neither an entry nor unread is settled. Offsets at which a read found no record
  (ends of transactions, aborted ones, what compaction took) are settled by that.
- Only what changed hands is kept: the end of what is not new, and before it the offsets that are pending with their
  attempts. Locks are not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from enum import Enum
from heapq import heappop, heappush
from math import inf

from headrace.broker.queues.events import Snapshot, Who
from headrace.errors import HeadraceError
from headrace.records.record import Record

OVERHEAD_BYTES = 100  # of a record in memory, beside its bytes


class State(Enum):
    READY = "ready"
    WAITING = "waiting"  # for its next attempt
    LOCKED = "locked"  # by a member
    DYING = "dying"  # on its way to the dead-letter topic


class Entry:
    __slots__ = ("at", "attempts", "is_renewed", "member", "reason", "record", "size", "state")

    def __init__(self, record: Record, attempts: int) -> None:
        self.record, self.attempts = record, attempts
        self.size = len(record.value or b"") + len(record.key or b"") + OVERHEAD_BYTES
        self.state = State.READY
        self.member = 0
        self.is_renewed = False  # its member asked for more time
        self.at = 0.0  # since when it is locked, or until when it waits
        self.reason = ""


class Asked:
    """Somebody who is told when all the partitions that he asked something of are kept."""

    __slots__ = ("error", "left", "who")

    def __init__(self, who: Who, partitions: int) -> None:
        self.who, self.left = who, partitions
        self.error: HeadraceError | None = None


class Window:
    __slots__ = (
        "_timed",
        "_touched_to",
        "asking",
        "bytes",
        "claimed",
        "entries",
        "fresh_at",
        "is_at_end",
        "is_dirty",
        "is_reading",
        "is_save_asked",
        "is_saving",
        "leaving",
        "locks",
        "partition",
        "read_again_at",
        "ready",
        "save_again_at",
        "saving_for",
        "unread",
    )

    def __init__(self, partition: int, snapshot: Snapshot) -> None:
        self.partition = partition
        self.fresh_at = snapshot.end
        self.unread = dict(snapshot.pending)
        self.entries: dict[int, Entry] = {}
        self.ready: deque[int] = deque()
        self.locks: dict[int, None] = {}  # in the order in which they run out
        self._timed: list[tuple[float, int]] = []  # when, offset: of those who wait, and of burials to be tried again
        self._touched_to = snapshot.end  # from here on nothing happened to any, but that some were read
        self.bytes = 0
        # Reading
        self.is_reading = self.is_at_end = False
        self.read_again_at = inf
        # Keeping
        self.is_dirty = self.is_save_asked = self.is_saving = False
        self.save_again_at = inf
        self.asking: list[Asked] = []  # for the next save
        self.saving_for: list[Asked] = []  # for the one that is under way
        # At most once: settled, and not delivered before that is kept
        self.claimed: list[Entry] = []
        self.leaving: list[Entry] = []

    @property
    def start(self) -> int:
        """All before it is settled."""
        return min(next(iter(self.unread), self.fresh_at), next(iter(self.entries), self.fresh_at))

    @property
    def read_at(self) -> int:
        """What to read next."""
        return next(iter(self.unread), self.fresh_at)

    @property
    def in_flight(self) -> int:
        """Those that somebody has, or had, or that wait for their end."""
        return len(self.entries) - len(self.ready)

    # Reading

    def came(self, from_offset: int, records: Sequence[Record], next_offset: int) -> list[Entry]:
        """What of the records is to be delivered now. A read that was under way while what it follows on was forgotten
        brings nothing: it is read again."""
        if from_offset > self.fresh_at:
            return []
        found, unread, fresh_at = [], self.unread, self.fresh_at
        for record in records:
            offset = record.offset
            if offset >= fresh_at:
                found.append(Entry(record, 0))
            elif offset in unread:
                found.append(Entry(record, unread.pop(offset)))
        if unread:
            for offset in [offset for offset in unread if from_offset <= offset < next_offset]:
                del unread[offset]  # nothing is there any more
        if next_offset > fresh_at:
            self.fresh_at = next_offset
        self.put(found)
        return found

    def put(self, entries: Sequence[Entry]) -> None:
        """As ready."""
        known = self.entries
        is_in_order = not entries or not known or entries[0].record.offset > next(reversed(known))
        for entry in entries:
            offset = entry.record.offset
            entry.state = State.READY
            known[offset] = entry
            self.ready.append(offset)
            self.bytes += entry.size
        if not is_in_order:
            self.entries = dict(sorted(known.items()))
            self.ready = deque(sorted(self.ready))

    def forget_ready(self) -> None:
        """Out of memory: nobody wants them now. What was only read is as if it had not been."""
        for offset in self.ready:
            entry = self.entries.pop(offset)
            self.bytes -= entry.size
            if offset < self._touched_to:
                self.unread[offset] = entry.attempts
            elif offset < self.fresh_at:
                self.fresh_at = offset
            self.is_at_end = False
        self.ready.clear()
        self.sort()

    def trim(self, start_offset: int) -> int:
        """The log begins here: how many were lost. What is in memory is not."""
        lost = [offset for offset in self.unread if offset < start_offset]
        for offset in lost:
            del self.unread[offset]
        skipped = max(0, start_offset - self.fresh_at)
        self.fresh_at += skipped
        self._touched_to = max(self._touched_to, start_offset)
        return len(lost) + skipped

    def cut(self, end_offset: int) -> list[Entry]:
        """The log ends here: what was behind never was. Gives those that were in somebody's hands."""
        gone = [offset for offset in self.entries if offset >= end_offset]
        entries = [self.remove(offset) for offset in gone]
        self.ready = deque(offset for offset in self.ready if offset < end_offset)
        self.unread = {offset: attempts for offset, attempts in self.unread.items() if offset < end_offset}
        self.fresh_at = min(self.fresh_at, end_offset)
        self._touched_to = min(self._touched_to, end_offset)
        self.claimed = [entry for entry in self.claimed if entry.record.offset < end_offset]
        self.leaving = [entry for entry in self.leaving if entry.record.offset < end_offset]
        return [entry for entry in entries if entry.state is State.LOCKED]

    def reopen(self, offset: int) -> bool:
        """False: it is not settled."""
        if offset >= self.fresh_at or offset in self.entries or offset in self.unread:
            return False
        if any(entry.record.offset == offset for entry in (*self.claimed, *self.leaving)):
            return False
        self.unread[offset] = 0
        return True

    def sort(self) -> None:
        self.unread = dict(sorted(self.unread.items()))

    # Hands

    def lock_next(self, member: int, now: float) -> Entry:
        """The first that is ready is the member's."""
        offset = self.ready.popleft()
        if offset >= self._touched_to:
            self._touched_to = offset + 1
        entry = self.entries[offset]
        entry.state, entry.member, entry.at = State.LOCKED, member, now
        entry.attempts += 1
        entry.is_renewed = False
        self.locks[offset] = None
        return entry

    def take_from_ready(self, offsets: Collection[int]) -> None:
        self.ready = deque(offset for offset in self.ready if offset not in offsets)

    def renew(self, entry: Entry, now: float) -> None:
        offset = entry.record.offset
        entry.at, entry.is_renewed = now, True
        del self.locks[offset]
        self.locks[offset] = None

    def held(self, offset: int, member: int) -> Entry | None:
        """Only who has the lock may settle it."""
        entry = self.entries.get(offset)
        return entry if entry is not None and entry.state is State.LOCKED and entry.member == member else None

    def _held_ahead(self) -> set[int]:
        """Of what members have: all but the oldest of each, and what it asked more time for."""
        begun: set[int] = set()
        ahead: set[int] = set()
        for offset in self.locks:
            entry = self.entries[offset]
            if entry.member in begun:
                if not entry.is_renewed:
                    ahead.add(offset)
            else:
                begun.add(entry.member)
        return ahead

    def held_by(self, member: int) -> list[Entry]:
        return [entry for offset in self.locks if (entry := self.entries[offset]).member == member]

    def remove(self, offset: int) -> Entry:
        """Settled, or claimed; whoever took it from `ready` has seen to that."""
        entry = self.entries.pop(offset)
        self.locks.pop(offset, None)
        self.bytes -= entry.size
        return entry

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Ready at once, in front of all that come after them."""
        for entry in entries:
            self.locks.pop(entry.record.offset, None)
            entry.state = State.READY
            self.ready.append(entry.record.offset)
        if entries and len(self.ready) > len(entries):
            self.ready = deque(sorted(self.ready))

    def put_aside(self, entry: Entry, state: State, until: float) -> None:
        """Waiting, or dying; `until` inf: for an answer."""
        self.locks.pop(entry.record.offset, None)
        entry.state, entry.at = state, until
        if until != inf:
            heappush(self._timed, (until, entry.record.offset))

    def due(self, now: float) -> list[Entry]:
        """Of those put aside: whose time has come."""
        found = []
        while self._timed and self._timed[0][0] <= now:
            at, offset = heappop(self._timed)
            entry = self.entries.get(offset)
            if entry is not None and entry.state in (State.WAITING, State.DYING) and entry.at == at:
                found.append(entry)
        return found

    def expired(self, now: float, lock_s: float) -> list[Entry]:
        """Those that were locked so long ago, or longer."""
        found = []
        for offset in self.locks:
            entry = self.entries[offset]
            if entry.at + lock_s > now:  # as `wake_at` reckons: no rounding lies between the two
                break
            found.append(entry)
        return found

    @property
    def locked_since(self) -> float:
        """Of the oldest lock; inf: there is none."""
        return self.entries[next(iter(self.locks))].at if self.locks else inf

    @property
    def timed_at(self) -> float:
        return self._timed[0][0] if self._timed else inf

    # At most once

    def claim_next(self) -> Entry:
        """The first that is ready is settled, and goes out when that is kept."""
        offset = self.ready.popleft()
        if offset >= self._touched_to:
            self._touched_to = offset + 1
        entry = self.entries.pop(offset)
        self.bytes -= entry.size
        entry.attempts += 1
        self.claimed.append(entry)
        return entry

    def has_sent(self, end_offset: int) -> bool:
        """Nothing before it waits to be read, or to go out for the first time."""
        first = min(self.read_at, self.ready[0] if self.ready else self.fresh_at)
        return first >= end_offset and all(
            entries[0].record.offset >= end_offset for entries in (self.claimed, self.leaving) if entries
        )

    @property
    def is_moving(self) -> bool:
        """More of it will go out, or be there to go out, of itself."""
        has_begun = self.is_reading or bool(self.claimed) or bool(self.leaving)
        return has_begun and self.save_again_at == inf

    def unclaim(self, entries: Sequence[Entry]) -> None:
        """They did not go out."""
        for entry in entries:
            entry.attempts -= 1
        self.put(entries)

    # Keeping

    def snapshot(self) -> Snapshot:
        """Should the node die, it is as if all members left (machine.py): what each had not come to yet has not cost
        an attempt."""
        pending, end = self.unread.copy(), self.fresh_at
        ahead = self._held_ahead() if self.locks else ()
        for offset, entry in self.entries.items():
            if offset >= self._touched_to:  # only read: whoever starts from here finds it again
                end = offset
                break
            pending[offset] = entry.attempts - 1 if offset in ahead else entry.attempts
        if self.unread and self.entries:
            pending = dict(sorted(pending.items()))
        return Snapshot(end, pending)
