"""A group on a simulated node: members come, leave, die, pause and do not hear; the node is killed, loses power, or
fails to sync.

    python -m headrace.testing.group_simulation --seed 7 --count 50

Promised, and checked: a partition has at most one owner in a generation; an acknowledged position never moves back; and
when all is calm, the group settles within its timeouts, with every member in it and every partition owned. The node is
the real one; members speak to its coordinator, by messages that take their time and get lost.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.broker.broker import NewTopic
from headrace.broker.groups.coordinator import Groups
from headrace.broker.groups.generation import State
from headrace.errors import HeadraceError
from headrace.testing.group_member import GROUP, TOPIC, Give, GroupMember, Lost, Promises
from headrace.testing.history import Violation
from headrace.testing.loop import SimulatedLoop, simulated_loop
from headrace.testing.node_simulation import KILL, POWER, SYNC, NodeSimulation, ended, run_to_end

LOSS = 0.01  # of messages, each way
MEMBERS = (2, 3, 6, 6, 6, 6, 12, 25, 60, 200)
SETTLE_S = 90.0  # more than session, rebalance and request timeouts one after the other, a few times


@dataclass(frozen=True)
class Options:
    members: int = 6
    partitions: int = 8
    duration_s: float = 60.0
    faults: int = 3
    is_cooperative: bool = False  # all members

    @classmethod
    def varied(cls, seed: int) -> Options:
        """Mostly few members, sometimes many; every other run cooperative."""
        chance = random.Random(f"options {seed}")
        members = chance.choice(MEMBERS)
        return cls(members, max(8, members * 3 // 2), is_cooperative=chance.random() < 0.5)


class Result(NamedTuple):
    seed: int
    trace_hash: str
    generation: int
    commits: int


class GroupSimulation(NodeSimulation):
    def __init__(self, loop: SimulatedLoop, options: Options) -> None:
        super().__init__(loop, "groups", (KILL, KILL, POWER, SYNC))
        self.options = options
        self.promises = Promises()
        self.is_settled = False  # the group is as it should be
        names = [f"m{number}" for number in range(options.members)]
        self.members = [GroupMember(name, self, loop.random_for(name)) for name in names]
        self.add_processes(names)

    def topic(self) -> NewTopic:
        return NewTopic(TOPIC, self.options.partitions)

    async def main(self) -> Groups:
        await self.start()
        tasks = [self.spawn(member.name, member.run()) for member in self.members]
        await self.strike_for(self.options.duration_s, self.options.faults)
        self.is_calm = True
        groups = await self._settle()
        self.is_settled = True
        await ended(tasks)
        return groups

    async def _settle(self) -> Groups:
        deadline = self.now + SETTLE_S
        while self.now < deadline:
            await asyncio.sleep(1)
            assert self.machine.node is not None
            groups = self.machine.node.broker.groups
            hosted = groups.hosted.get(GROUP)
            if hosted is None or hosted.group.state is not State.STABLE:
                continue
            owned = {place for generation, place in self.promises.owners if generation == hosted.group.generation}
            everybody = len(hosted.group.roster) == sum(member.is_alive for member in self.members)
            if everybody and len(owned) == self.options.partitions and all(m.is_alive for m in self.members):
                return groups
        raise Violation(f"the group has not settled {SETTLE_S:.0f} s after all was calm")

    # Messages

    async def ask(
        self, who: str, call: Callable[[Groups, Give], None], timeout_s: float, heard: Callable[[], None] | None
    ) -> Any:
        """`heard` is called when a good answer arrives."""
        node, chance = self.node, self.chance
        answered: asyncio.Future[Any] = self.loop.create_future()

        def give(answer: Any) -> None:
            if not self._is_lost():
                self.process(who).run(self.loop.call_later, chance.uniform(0.0001, 0.05), arrive, answer)

        def arrive(answer: Any) -> None:
            if not answered.done():
                answered.set_result(answer)

        def reach() -> None:
            if self.serves and self.machine.node is not None:
                try:
                    call(self.machine.node.broker.groups, give)
                except HeadraceError as error:
                    give(error)

        if node is not None and node.alive and not self._is_lost():
            node.run(self.loop.call_later, chance.uniform(0.0001, 0.05), reach)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await answered
        except TimeoutError:
            raise Lost from None
        if heard is not None and not isinstance(answer, HeadraceError):
            heard()
        return answer

    def _is_lost(self) -> bool:
        return not self.is_calm and self.chance.random() < LOSS


def run(seed: int, options: Options | None = None) -> Result:
    """One run; raises what was wrong, with the seed."""
    with simulated_loop(seed, permute=True) as loop:
        simulation = GroupSimulation(loop, options or Options())
        groups = run_to_end(loop, seed, simulation.main())
        generation = groups.hosted[GROUP].group.generation if GROUP in groups.hosted else 0
        return Result(seed, loop.trace.hash, generation, len(simulation.promises.acknowledged))


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a group on a simulated node, with faults, from a seed.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--members", type=int, help="eager ones; otherwise their number and kind vary with the seed")
    arguments = parser.parse_args()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        options = Options(members=arguments.members) if arguments.members else Options.varied(seed)
        result = run(seed, options)
        print(
            f"seed {seed}: {options.members} members, {result.generation} generations; trace {result.trace_hash[:16]}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
