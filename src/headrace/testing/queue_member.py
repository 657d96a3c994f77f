"""A member of a queue in the simulation: it joins, works, is slow, says no, dies, and comes back.

Its seat is what the node knows of it: it belongs to one life of the node, and what it is given travels to the member,
which answers when it likes. Whatever the node promises by it is written down where it is promised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.queues.events import Delivery
from headrace.broker.queues.membership import Membership
from headrace.broker.queues.settings import QueueSettings
from headrace.errors import HeadraceError
from headrace.testing.history import Violation

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.testing.queue_simulation import QueueSimulation

TOPIC, DOOR = "jobs", "lines"
LOCK_S = 2.0
MAX_ATTEMPTS = 4
NO_WORK = "no such work"
POLICY = {
    "headrace.queue.lock.ms": str(round(LOCK_S * 1000)),
    "headrace.queue.max.attempts": str(MAX_ATTEMPTS),
    "headrace.queue.backoff.ms": "200",
}


class Lock(NamedTuple):
    seat: Seat
    until: float


class Promises:
    """Of a node, over all its lives."""

    def __init__(self) -> None:
        self.published: dict[str, float] = {}  # value -> when it was known to be safe
        self.settled: set[str] = set()  # by who held them: whether that was kept is known of
        self.acknowledged: set[str] = set()  # these alone
        self.once: set[str] = set()  # taken, at most once
        self.deliveries = 0
        self._locks: dict[str, Lock] = {}
        self._attempts: dict[tuple[int, str], tuple[int, Seat]] = {}  # in that life: the last, and whose it was

    def took(self, seat: Seat, deliveries: Sequence[Delivery], now: float) -> None:
        for delivery in deliveries:
            value = (delivery.record.value or b"").decode()
            self.deliveries += 1
            if seat.is_once:
                if value in self.once:
                    raise Violation(f"{value} was delivered twice, where at most once was promised")
                self.once.add(value)
            else:
                self._took_to_work_on(seat, value, delivery.attempt, now)

    def _took_to_work_on(self, seat: Seat, value: str, attempt: int, now: float) -> None:
        if value in self.acknowledged:
            raise Violation(f"{value} was acknowledged, and delivered again")
        if attempt > MAX_ATTEMPTS:
            raise Violation(f"{value} was delivered for the {attempt}th time, and {MAX_ATTEMPTS} are the limit")
        before, whose = self._attempts.get((seat.life, value), (0, seat))
        if attempt < before or (attempt == before and whose.is_seated):  # who left may not have come to it
            raise Violation(f"{value} was delivered once more, and counted as attempt {attempt} again")
        self._attempts[seat.life, value] = attempt, seat
        lock = self._locks.get(value)
        if lock is not None and lock.seat.life == seat.life and lock.seat.is_seated and now < lock.until:
            raise Violation(f"{value} was given to another while somebody had it")
        self._locks[value] = Lock(seat, now + LOCK_S)

    def renewed(self, seat: Seat, value: str, now: float) -> None:
        self._locks[value] = Lock(seat, now + LOCK_S)

    def let_go(self, value: str) -> None:
        self._locks.pop(value, None)


class Seat:
    def __init__(self, member: QueueWorker, life: int, is_once: bool) -> None:
        self._member, self.life, self.is_once = member, life, is_once
        self.membership: Membership | None = None
        self.is_seated = True

    def take(self, deliveries: Sequence[Delivery]) -> bool:
        simulation = self._member.simulation
        simulation.promises.took(self, deliveries, simulation.now)
        simulation.to_member(self._member.name, lambda: self._member.came(self, deliveries))
        if simulation.is_calm or simulation.chance.random() > 0.1:
            return True
        simulation.to_node(self.life, self._resume, simulation.chance.uniform(0.1, 1))
        return False

    def _resume(self, broker: Broker) -> None:
        if self.membership is not None:
            self.membership.resume()

    def leave(self, broker: Broker) -> None:
        self.is_seated = False
        if self.membership is not None:
            self.membership.leave()

    def acknowledge(self, broker: Broker, delivery: Delivery) -> None:
        promises, value = self._member.simulation.promises, _value(delivery)

        def done(error: HeadraceError | None) -> None:
            if error is None and held:
                promises.acknowledged.add(value)

        assert self.membership is not None
        held = self.membership.acknowledge([_place(delivery)], done)
        if held:
            promises.settled.add(value)

    def release(self, broker: Broker, delivery: Delivery) -> None:
        assert self.membership is not None
        self._member.simulation.promises.let_go(_value(delivery))
        self.membership.release([_place(delivery)])

    def reject(self, broker: Broker, delivery: Delivery) -> None:
        assert self.membership is not None
        self._member.simulation.promises.let_go(_value(delivery))
        self.membership.reject([_place(delivery)], NO_WORK)

    def renew(self, broker: Broker, delivery: Delivery) -> None:
        assert self.membership is not None
        if self.membership.renew([_place(delivery)]):
            self._member.simulation.promises.renewed(self, _value(delivery), self._member.simulation.now)


class QueueWorker:
    """Runs until the simulation is over."""

    def __init__(self, name: str, group: str, is_once: bool, simulation: QueueSimulation, chance: Random) -> None:
        self.name, self.group, self.simulation = name, group, simulation
        self.settings = QueueSettings(at_most_once=is_once, start="start")
        self._chance = chance
        self._seat: Seat | None = None

    async def run(self) -> None:
        simulation, chance = self.simulation, self._chance
        while not simulation.is_over:
            seat = Seat(self, simulation.life, self.settings.at_most_once)
            if await simulation.seat(self, seat):
                self._seat = seat
                ends = simulation.now + chance.expovariate(1 / 8)
                while simulation.life == seat.life and not simulation.is_over:
                    if not simulation.is_calm and simulation.now > ends:
                        break
                    await simulation.sleep(0.1)
            self._seat = None
            simulation.to_node(seat.life, seat.leave, chance.uniform(0.001, 1.0))
            await simulation.sleep(chance.uniform(0.05, 1.0))

    def came(self, seat: Seat, deliveries: Sequence[Delivery]) -> None:
        if seat is not self._seat or seat.is_once:
            return
        for delivery in deliveries:
            self._work(seat, delivery)

    def _work(self, seat: Seat, delivery: Delivery) -> None:
        chance, simulation = self._chance, self.simulation
        fate = chance.random()
        acts: list[tuple[float, Callable[[Broker, Delivery], None]]]
        if simulation.is_calm:
            acts = [(chance.uniform(0, 0.01), seat.acknowledge)]
        elif fate < 0.7:
            acts = [(chance.uniform(0, 0.5), seat.acknowledge)]
        elif fate < 0.8:
            acts = [(LOCK_S * chance.uniform(0.9, 1.6), seat.acknowledge)]
        elif fate < 0.86:
            acts = [(chance.uniform(0, 1), seat.release)]
        elif fate < 0.88:
            acts = [(chance.uniform(0, 1), seat.reject)]
        elif fate < 0.94:
            acts = [(LOCK_S * 0.8, seat.renew), (LOCK_S * chance.uniform(1.5, 1.9), seat.acknowledge)]
        else:
            acts = []
        for after_s, act in acts:
            asyncio.get_running_loop().call_later(after_s, self._do, seat, act, delivery)

    def _do(self, seat: Seat, act: Callable[[Broker, Delivery], None], delivery: Delivery) -> None:
        if seat is self._seat:  # it has not died meanwhile
            self.simulation.to_node(seat.life, lambda broker: act(broker, delivery), self._chance.uniform(0.0001, 0.05))


def _value(delivery: Delivery) -> str:
    return (delivery.record.value or b"").decode()


def _place(delivery: Delivery) -> tuple[int, int]:
    return delivery.partition, delivery.record.offset
