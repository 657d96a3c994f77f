"""A group in a nutshell, on virtual time: members by our machine, a coordinator as small as can be, a network that
loses requests and answers, programs that are slow, die and come back. One seed gives one run.

What must hold at every moment: of the members that the coordinator would take a commit from, at most one holds a
partition. When the network is quiet and nobody dies any more: every partition is held, by one.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from headrace.client.member import Member
from headrace.client.member_events import (
    AskBeat,
    AskJoin,
    AskLeave,
    AskSync,
    Assign,
    Beaten,
    Begin,
    Count,
    Counted,
    Effect,
    End,
    Event,
    Fail,
    Joined,
    JoinedMember,
    Lose,
    Revoke,
    Revoked,
    Synced,
    Tick,
    Unanswered,
)
from headrace.client.values import TopicPartition
from headrace.wire.kafka.errors import Code

SESSION_S, REBALANCE_S, HEARTBEAT_S, LATE_S = 6.0, 10.0, 1.0, 2.0
TOPIC = "t"
Answer = Callable[[Event], None]


class Coordinator:
    """Classic groups: a round of joins, a leader's shares, heartbeats until the next round."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.generation, self.leader = 0, ""
        self.state = "empty"  # joining, syncing, stable
        self.seen: dict[str, float] = {}  # members, and when they were heard of
        self.joins: dict[str, tuple[AskJoin, Answer]] = {}
        self.syncs: dict[str, tuple[AskSync, Answer]] = {}
        self.shares: dict[str, bytes] = {}
        self.began = 0.0
        self._ids, self._new = 0, set[str]()  # ids that were given and not used yet

    def join(self, asked: AskJoin, answer: Answer) -> None:
        if not asked.member_id:
            self._ids += 1
            self._new.add(f"m{self._ids}")
            answer(Joined(asked.turn, Code.MEMBER_ID_REQUIRED, f"m{self._ids}"))
            return
        if asked.member_id not in self.seen and asked.member_id not in self._new:
            answer(Joined(asked.turn, Code.UNKNOWN_MEMBER_ID))
            return
        self._new.discard(asked.member_id)
        self.seen[asked.member_id] = self.world.now
        if self.state != "joining":
            self._rebalance()
        self.joins[asked.member_id] = asked, answer
        self._try_to_complete()

    def sync(self, asked: AskSync, answer: Answer) -> None:
        code = self._code(asked.member_id, asked.generation)
        if code or self.state == "joining":
            answer(Synced(asked.turn, code or Code.REBALANCE_IN_PROGRESS))
            return
        self.seen[asked.member_id] = self.world.now
        self.syncs[asked.member_id] = asked, answer
        if asked.member_id == self.leader and self.state == "syncing":
            self.state, self.shares = "stable", dict(asked.shares)
        if self.state == "stable":
            for name, (one, reply) in self.syncs.items():
                reply(Synced(one.turn, 0, self.shares.get(name, b"")))
            self.syncs = {}

    def beat(self, asked: AskBeat, answer: Answer) -> None:
        code = self._code(asked.member_id, asked.generation)
        if not code:
            self.seen[asked.member_id] = self.world.now
            code = 0 if self.state == "stable" else Code.REBALANCE_IN_PROGRESS
        answer(Beaten(asked.turn, code))

    def leave(self, member_id: str) -> None:
        if self.seen.pop(member_id, None) is not None:
            self._rebalance()
            self._try_to_complete()

    def look(self) -> None:
        """Sessions that are over, and rounds that took too long."""
        now = self.world.now
        gone = [name for name, at in self.seen.items() if now - at > SESSION_S and name not in self.joins]
        if self.state == "joining" and now - self.began > REBALANCE_S:
            gone = [name for name in self.seen if name not in self.joins]
        for name in gone:
            self.leave(name)

    def takes_commit(self, member: Member) -> bool:
        return member.id in self.seen and member.generation == self.generation and self.state != "syncing"

    def _code(self, member_id: str, generation: int) -> int:
        if member_id not in self.seen:
            return Code.UNKNOWN_MEMBER_ID
        return 0 if generation == self.generation else Code.ILLEGAL_GENERATION

    def _rebalance(self) -> None:
        if self.state != "joining":
            self.state, self.began = "joining", self.world.now
            for one, answer in self.syncs.values():
                answer(Synced(one.turn, Code.REBALANCE_IN_PROGRESS))
            self.syncs = {}

    def _try_to_complete(self) -> None:
        if self.state != "joining" or not self.seen or set(self.seen) - set(self.joins):
            return
        self.generation += 1
        self.state, self.shares = "syncing", {}
        self.leader = self.leader if self.leader in self.joins else min(self.joins)
        asked = {name: one for name, (one, _) in self.joins.items()}
        names = [{name for name, _ in one.protocols} for one in asked.values()]
        protocol = next(name for name, _ in asked[self.leader].protocols if all(name in each for each in names))
        members = [JoinedMember(name, None, dict(one.protocols)[protocol]) for name, one in asked.items()]
        for name, (one, answer) in self.joins.items():
            told = members if name == self.leader else []
            answer(Joined(one.turn, 0, name, self.generation, protocol, self.leader, told))
            self.seen[name] = self.world.now
        self.joins = {}


class Driver:
    """One member, its program and its network."""

    def __init__(self, world: World, assignors: tuple[str, ...]) -> None:
        self.world, self.held = world, set[TopicPartition]()
        self.member = Member((TOPIC,), assignors, HEARTBEAT_S, lambda failures: 0.1 * min(failures, 5))
        self.is_dead = False
        self._armed: float | None = None  # for when a Tick is due
        self.post(Begin())

    def post(self, event: Event) -> None:
        if self.is_dead:
            return
        for effect in self.member.step(self.world.now, event):
            self._do(effect)
        due = self.member.due
        if due != self._armed:
            self._armed = due
            if due is not None:
                self.world.at(due, self._tick)

    def _tick(self) -> None:
        if self._armed is not None and self._armed <= self.world.now:
            self._armed = None
            self.post(Tick())

    def die(self) -> None:
        self.is_dead, self.held = True, set()

    def end(self) -> None:
        self.post(End())
        self.die()

    def _do(self, effect: Effect) -> None:
        world, group = self.world, self.world.coordinator
        match effect:
            case AskJoin():
                world.send(self, effect.turn, lambda answer: group.join(effect, answer), REBALANCE_S + 5)
            case AskSync():
                world.send(self, effect.turn, lambda answer: group.sync(effect, answer), REBALANCE_S + 5)
            case AskBeat():
                world.send(self, effect.turn, lambda answer: group.beat(effect, answer), SESSION_S)
            case AskLeave():
                world.send(self, -1, lambda answer: group.leave(effect.member_id), SESSION_S)
            case Count():
                world.after(0.01, lambda: self.post(Counted(effect.turn, {TOPIC: world.partitions})))
            case Assign():
                self.held |= set(effect.partitions)
            case Lose():
                self.held = set()
            case Revoke():
                world.after(world.chance.expovariate(2.0), lambda: self._give_up(effect))
            case Fail():
                raise AssertionError(f"it was refused: {effect}")

    def _give_up(self, revoke: Revoke) -> None:
        if self.member._revocations == revoke.number and not self.is_dead:
            self.held -= set(revoke.partitions)
        self.post(Revoked(revoke.number))


class World:
    def __init__(self, seed: int, partitions: int) -> None:
        self.now, self.partitions = 0.0, partitions
        self.chance = random.Random(seed)
        self.losses = 0.1
        self.coordinator = Coordinator(self)
        self.drivers: list[Driver] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._look()

    def at(self, when: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (max(when, self.now), self._count, action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.now + seconds, action)

    def send(self, driver: Driver, turn: int, deliver: Callable[[Answer], None], limit_s: float) -> None:
        """A request that may be lost, on the way or on the way back; then its sender hears that nobody answered."""
        fate, answers = self.chance.random(), list[Event]()

        def back(event: Event) -> None:
            if fate >= self.losses:
                answers.append(event)
                self.after(self.chance.uniform(0.001, 0.05), lambda: driver.post(event))

        def give_up() -> None:
            if not answers:
                driver.post(Unanswered(turn))

        if fate >= self.losses / 2:
            self.after(self.chance.uniform(0.001, 0.05), lambda: deliver(back))
        late_s = self.chance.uniform(0.05, LATE_S) if fate < self.losses else limit_s
        self.after(late_s, give_up)

    def run(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            action()
            self.check()
        self.now = until

    def check(self) -> None:
        owners: dict[TopicPartition, str] = {}
        for driver in self.drivers:
            if not driver.is_dead and self.coordinator.takes_commit(driver.member):
                for one in driver.held:
                    assert one not in owners, f"{one} is held by {owners[one]} and {driver.member.id} at {self.now}"
                    owners[one] = driver.member.id

    def _look(self) -> None:
        self.coordinator.look()
        self.after(0.1, self._look)
