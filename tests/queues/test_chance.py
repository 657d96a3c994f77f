"""A queue's machine under chance: thousands of events in any order, with reads, saves and burials that come late or
fail, and what must hold after each of them.

- Whatever is counted twice agrees: locks and what members hold, bytes and the budget, the order of offsets.
- Told to be acknowledged, or safe as a dead letter: never delivered again, restarts included, unless asked for.
- At most once: never delivered twice, unless asked for.
- In the end everything that the log holds was delivered, is dead, or was settled; and nobody waits to be told.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from headrace.broker.queues.counts import Budget
from headrace.broker.queues.events import (
    Acknowledge,
    Buried,
    Bury,
    Came,
    Deliver,
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
    Save,
    Saved,
    Snapshot,
    Tell,
    Tick,
    Trimmed,
)
from headrace.broker.queues.machine import Machine
from headrace.broker.queues.settings import Policy
from headrace.broker.queues.window import State
from headrace.errors import StorageFailed
from headrace.records.record import Record

NO_ROOM = StorageFailed("no room")


class World:
    """A log with gaps, a place where snapshots are kept, members that say anything at any time."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.policy = Policy(
            at_most_once=chance.random() < 0.4,
            lock_s=5,
            max_attempts=chance.choice((0, 1, 3)),
            backoff_s=chance.choice((0, 1)),
            records=chance.choice((1, 7, 100)),
            bytes=chance.choice((1, 500, 1 << 20)),
        )
        self.now, self.calm = 0.0, False
        self.offsets = {0: [], 1: []}  # of records; others are gaps
        self.ends, self.starts = {0: 0, 1: 0}, {0: 0, 1: 0}
        self.kept = {0: Snapshot(0), 1: Snapshot(0)}
        self.safe: set[tuple[int, int]] = set()  # acknowledged and told, or buried: not to come again
        self.asked: list[set[tuple[int, int]]] = []
        self.once: Counter[tuple[int, int]] = Counter()
        self.settled: set[tuple[int, int]] = set()
        self.restart()

    def restart(self) -> None:
        self.machine = Machine(self.policy, Budget(10_000))
        self.reads: list[Read] = []
        self.to_save: list[int] = []
        self.saving: dict[int, Snapshot] = {}
        self.burials: list[Bury] = []
        self.members: dict[int, list[tuple[int, int]]] = {}
        self.number = 0
        self.reaching: set[int] = set()  # who waits until what is there has gone out
        for partition, snapshot in self.kept.items():
            self.machine.open(partition, snapshot)

    # What happens

    def append(self) -> None:
        partition = self.chance.randint(0, 1)
        for _ in range(self.chance.randint(1, 8)):
            if self.chance.random() < 0.8:
                self.offsets[partition].append(self.ends[partition])
            self.ends[partition] += 1
        self.step(More(partition))

    def step(self, event) -> None:
        for effect in self.machine.step(self.now, event):
            match effect:
                case Deliver(member, deliveries):
                    for partition, record, attempt in deliveries:
                        self.delivered(member, (partition, record.offset), attempt)
                case Read():
                    self.reads.append(effect)
                case Save(partition):
                    self.to_save.append(partition)
                case Bury():
                    self.burials.append(effect)
                case Tell(int() as number, _):
                    self.reaching.remove(number)
                case Tell(who, None):
                    self.safe |= who
                case Lost():
                    pass
        self.check()

    def delivered(self, member: int, place: tuple[int, int], attempt: int) -> None:
        assert member in self.members, "somebody who left"
        assert place[1] in self.offsets[place[0]], "nothing is there"
        assert place not in self.safe, f"{place} comes again"
        if self.policy.at_most_once:
            self.once[place] += 1
            assert self.once[place] == 1, f"{place} comes twice"
            self.settled.add(place)
        else:
            assert not self.policy.max_attempts or attempt <= self.policy.max_attempts
            self.members[member].append(place)

    def check(self) -> None:
        machine = self.machine
        held, size = Counter(), Counter()
        for window in machine.windows.values():
            entries = window.entries
            assert list(entries) == sorted(entries) and list(window.unread) == sorted(window.unread)
            assert not entries.keys() & window.unread.keys()
            assert sorted(window.ready) == [o for o, entry in entries.items() if entry.state is State.READY]
            assert set(window.locks) == {o for o, entry in entries.items() if entry.state is State.LOCKED}
            assert window.bytes == sum(entry.size for entry in entries.values())
            assert window.start <= window.fresh_at <= self.ends[window.partition]
            for entry in entries.values():
                if entry.state is State.LOCKED:
                    held[entry.member] += 1
                    size[entry.member] += entry.size
            if not machine.members:
                assert not window.ready and not window.locks
        for member in machine.members:
            assert (member.held, member.bytes) == (held[member.number], size[member.number])
            assert member.held <= member.max_records
        assert machine.budget.used == sum(window.bytes for window in machine.windows.values())
        assert len(self.to_save) == len(set(self.to_save)) and not set(self.to_save) & self.saving.keys()

    def happen(self) -> None:
        chance = self.chance
        self.now += chance.choice((0, 0, 0.1, 1))
        acts = [self.come, self.come, self.save, self.save, self.kept_, self.kept_, self.bury, self.tick]
        acts += [self.join, self.say, self.say, self.say]
        if not self.calm:
            acts += [self.append, self.leave, self.fullness, self.reach]
            if chance.random() < 0.03:
                acts = [self.restart_, self.trim, self.reopen]
        chance.choice(acts)()

    def come(self) -> None:
        if not self.reads:
            return
        wish = self.reads.pop(self.chance.randrange(len(self.reads)))
        partition, offset = wish.partition, wish.offset
        if not self.calm and self.chance.random() < 0.05:
            self.step(NotRead(partition))
            return
        if offset < self.starts[partition]:
            self.step(Trimmed(partition, self.starts[partition]))
            self.step(Came(partition, offset, (), offset, False))
            return
        to = self.chance.randint(offset, self.ends[partition]) if offset < self.ends[partition] else offset
        records = [Record(value=b"v", offset=at) for at in self.offsets[partition] if offset <= at < to]
        self.step(Came(partition, offset, records, to, to == self.ends[partition]))

    def save(self) -> None:
        if self.to_save:
            partition = self.to_save.pop(0)
            self.saving[partition] = self.machine.begin_save(partition)

    def kept_(self) -> None:
        if self.saving:
            partition = self.chance.choice(list(self.saving))
            snapshot = self.saving.pop(partition)
            if not self.calm and self.chance.random() < 0.1:
                if self.chance.random() < 0.5:  # written all the same
                    self.kept[partition] = snapshot
                self.step(Saved(partition, NO_ROOM))
            else:
                self.kept[partition] = snapshot
                self.step(Saved(partition))

    def bury(self) -> None:
        if self.burials:
            wish = self.burials.pop(0)
            fails = not self.calm and self.chance.random() < 0.2
            if not fails:
                self.settled.add((wish.partition, wish.record.offset))
            self.step(Buried(wish.partition, wish.record.offset, NO_ROOM if fails else None))

    def tick(self) -> None:
        if self.machine.wake_at <= self.now:
            self.step(Tick())

    def join(self) -> None:
        if len(self.members) < 3:
            self.number += 1
            self.members[self.number] = []
            self.step(Join(self.number, self.chance.choice((1, 3, 50)), self.chance.choice((1, 1000, 1 << 20))))

    def leave(self) -> None:
        if self.members:
            number = self.chance.choice(list(self.members))
            del self.members[number]
            self.step(Leave(number))

    def fullness(self) -> None:
        if self.members:
            self.step(self.chance.choice((Full, Resume, Resume))(self.chance.choice(list(self.members))))

    def reach(self) -> None:
        self.number += 1
        self.reaching.add(self.number)
        self.step(Reach(dict(self.ends), self.number))

    def say(self) -> None:
        if not self.members or self.policy.at_most_once:
            return
        number = self.chance.choice(list(self.members))
        had = self.members[number]
        if self.calm:  # nothing else is of use
            windows = self.machine.windows
            had[:] = [place for place in had if windows[place[0]].held(place[1], number) is not None]
        places = self.chance.sample(had, min(len(had), self.chance.randint(1, 4)))
        kind = Acknowledge if self.calm else self.chance.choice((Acknowledge, Acknowledge, Release, Reject, Renew))
        if kind is Acknowledge:
            windows = self.machine.windows
            held = {place for place in places if windows[place[0]].held(place[1], number) is not None}
            self.settled |= held
            self.asked.append(held)
            self.step(Acknowledge(number, places, held))
        elif kind is Reject:
            self.step(Reject(number, places, "no"))
        else:
            self.step(kind(number, places))

    def restart_(self) -> None:
        self.restart()

    def trim(self) -> None:
        partition = self.chance.randint(0, 1)
        self.starts[partition] = self.chance.randint(self.starts[partition], self.ends[partition])

    def reopen(self) -> None:
        some = [(p, o) for p in (0, 1) for o in self.offsets[p] if o >= self.starts[p]]
        places = self.chance.sample(some, min(3, len(some)))
        for place in places:
            for asked in self.asked:
                asked.discard(place)
            self.safe.discard(place)
            self.once.pop(place, None)
            self.settled.discard(place)
        self.step(Reopen(places))


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_the_counts_agree_and_in_the_end_nothing_is_left(seed):
    world = World(seed)
    for _ in range(1500):
        world.happen()
    world.calm = True
    for number in list(world.members):
        world.step(Resume(number))
    for _ in range(6000):
        world.now += 0.1
        for act in (world.tick, world.come, world.save, world.kept_, world.bury, world.join, world.say):
            act()
        if not world.reaching and all(world.machine.windows[p].start == world.ends[p] for p in (0, 1)):
            break
    windows = world.machine.windows
    assert [windows[p].start for p in (0, 1)] == [world.ends[p] for p in (0, 1)]
    assert not world.reaching
