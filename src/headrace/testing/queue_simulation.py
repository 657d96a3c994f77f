"""Queues on a simulated node: members join, work, are late, die; the node is killed, loses power, fails to sync, has no
room; and records are published all the while.

    python -m headrace.testing.queue_simulation --seed 7 --count 50

Promised, and checked: what was told to be acknowledged is never delivered again; what was published and not
acknowledged is delivered, or ends in the dead-letter topic after its last attempt, or its rejection; nobody gets a
record while another holds it; and of the group that gets its records at most once nobody gets one twice, and none is
lost unless the node died.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.broker.broker import Broker, NewTopic
from headrace.broker.queues.records import QueueKey
from headrace.errors import HeadraceError
from headrace.records.record import Record
from headrace.testing.history import Violation
from headrace.testing.loop import SimulatedLoop, simulated_loop
from headrace.testing.node_simulation import FULL, KILL, POWER, SYNC, NodeSimulation, ended, run_to_end
from headrace.testing.queue_member import (
    DOOR,
    MAX_ATTEMPTS,
    NO_WORK,
    POLICY,
    TOPIC,
    Promises,
    QueueWorker,
    Seat,
)

WORK, ONCE = "work", "once"  # the groups
SETTLE_S = 120.0  # more than all attempts one after the other, and one member that takes two at a time


@dataclass(frozen=True)
class Options:
    members: int = 4  # of each group, at most
    partitions: int = 3  # at most
    duration_s: float = 30.0
    faults: int = 3


class Result(NamedTuple):
    seed: int
    trace_hash: str
    published: int
    deliveries: int
    dead: int


class QueueSimulation(NodeSimulation):
    def __init__(self, loop: SimulatedLoop, options: Options) -> None:
        super().__init__(loop, "queues", (KILL, KILL, POWER, POWER, SYNC, FULL))
        self.options = options
        self.promises = Promises()
        self.is_over = False  # there is nothing more to check
        self._calm_at = 0.0
        self._partitions, count = self.chance.randint(1, options.partitions), self.chance.randint(1, options.members)
        names = [(f"{group}{number}", group) for group in (WORK, ONCE) for number in range(count)]
        self.members = [QueueWorker(name, group, group == ONCE, self, loop.random_for(name)) for name, group in names]
        self.add_processes(("publisher", *(name for name, _ in names)))

    def topic(self) -> NewTopic:
        return NewTopic(TOPIC, self._partitions, configs=dict(POLICY))

    async def main(self) -> int:
        """How many died."""
        await self.start()
        tasks = [self.spawn(member.name, member.run()) for member in self.members]
        tasks.append(self.spawn("publisher", self._publish()))
        await self.strike_for(self.options.duration_s, self.options.faults)
        if not self.options.faults:
            await asyncio.sleep(self.options.duration_s)
        self._calm_at, self.is_calm = self.now, True
        await asyncio.sleep(2)  # some are published in peace
        dead = await self._settle()
        self.is_over = True
        await ended(tasks)
        return dead

    # Publishing

    async def _publish(self) -> None:
        number = 0
        while not self.is_calm or self.now < self._calm_at + 1.5:
            for _ in range(self.chance.choice((1, 1, 1, 5, 20))):
                number += 1
                self.to_node(self.life, self._publisher(f"v{number}"), self.chance.uniform(0.0001, 0.01))
            await asyncio.sleep(self.chance.uniform(0.01, 0.4))

    def _publisher(self, value: str) -> Callable[[Broker], None]:
        asked_at = self.now

        def done(answer: object) -> None:
            if not isinstance(answer, HeadraceError):
                self.promises.published[value] = asked_at

        partition = self.chance.randrange(self._partitions)
        return lambda broker: broker.publishing.publish(TOPIC, Record(value=value.encode()), done, partition=partition)

    # The end

    async def _settle(self) -> int:
        deadline = self.now + SETTLE_S
        while True:
            dead = await self._dead()
            promises = self.promises
            left = promises.published.keys() - promises.settled - dead
            late = {value for value, at in promises.published.items() if at > self._lossless_since} - promises.once
            if not left and not late:
                return len(dead)
            if self.now > deadline:
                raise Violation(f"{SETTLE_S:.0f} s after all was calm these are lost: {sorted(left or late)[:10]}")
            await asyncio.sleep(1)

    @property
    def _lossless_since(self) -> float:
        return self._calm_at if self.options.faults else -1.0

    async def _dead(self) -> set[str]:
        found = await self._ask(lambda broker: broker.queues.dead(QueueKey(DOOR, TOPIC, WORK), 1000, True))
        for dead in found or ():
            letter = dead.letter
            if letter.reason != NO_WORK and letter.attempts != MAX_ATTEMPTS:
                raise Violation(f"{dead.record.value!r} was given up after {letter.attempts} attempts: {letter.reason}")
        return {dead.record.value.decode() for dead in found or ()}

    # Messages

    async def seat(self, member: QueueWorker, seat: Seat) -> bool:
        """Whether the member has joined."""

        async def join(broker: Broker) -> bool:
            queue = await broker.queues.open(DOOR, TOPIC, member.group, member.settings)
            if seat.is_seated and seat.life == self.life:
                seat.membership = queue.join(member.name, seat, max_records=self.chance.choice((2, 10, 50)))
            return True

        return bool(await self._ask(join))

    async def _ask(self, ask: Callable[[Broker], Coroutine[Any, Any, Any]]) -> Any:
        """What the node answers; None: nothing, or no."""
        node, machine = self.node, self.machine.node
        if not self.serves or node is None or machine is None:
            return None
        task: asyncio.Task[Any] = node.run(self.loop.create_task, ask(machine.broker))
        answered, _ = await asyncio.wait([task], timeout=10)
        if not answered or isinstance(task.exception(), HeadraceError):
            return None
        return task.result()

    def to_node(self, life: int, call: Callable[[Broker], None], after_s: float) -> None:
        """It arrives, unless that life of the node is over."""

        def arrive() -> None:
            if self.serves and self.life == life and self.machine.node is not None:
                call(self.machine.node.broker)

        if self.node is not None and self.node.alive and self.life == life:
            self.node.run(self.loop.call_later, after_s, arrive)

    def to_member(self, name: str, call: Callable[[], None]) -> None:
        self.process(name).run(self.loop.call_later, self.chance.uniform(0.0001, 0.05), call)


def run(seed: int, options: Options | None = None) -> Result:
    """One run; raises what was wrong, with the seed."""
    with simulated_loop(seed, permute=True) as loop:
        simulation = QueueSimulation(loop, options or Options())
        dead = run_to_end(loop, seed, simulation.main())
        promises = simulation.promises
        return Result(seed, loop.trace.hash, len(promises.published), promises.deliveries, dead)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs queues on a simulated node, with faults, from a seed.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--members", type=int, default=Options.members)
    parser.add_argument("--faults", type=int, default=Options.faults)
    arguments = parser.parse_args()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        done = run(seed, Options(members=arguments.members, faults=arguments.faults))
        print(
            f"seed {seed}: {done.published} published, {done.deliveries} deliveries, {done.dead} dead; "
            f"trace {done.trace_hash[:16]}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
