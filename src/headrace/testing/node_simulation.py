"""What simulations of one node have in common: the node, its faults, and the processes around it.

It is the real node, on a simulated machine. Now and then it is killed, loses power, fails to sync or has no room, and
comes back; then all is calm, and what was promised has to come true. What the processes do, and what is promised, is
each simulation's own.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from headrace.broker.broker import NewTopic
from headrace.errors import HeadraceError
from headrace.testing.history import Violation
from headrace.testing.loop import SimulatedLoop, SimulationFault
from headrace.testing.machine import SimulatedMachine
from headrace.testing.network import Network
from headrace.testing.process import Process

HOST, PORT = "node", 9092
KILL, POWER, SYNC, FULL = "kill", "power", "sync", "full"

T = TypeVar("T")


class NodeSimulation(ABC):
    """`faults`: what may happen, each as often as it is named."""

    def __init__(self, loop: SimulatedLoop, name: str, faults: Sequence[str]) -> None:
        self.loop = loop
        self.network, self.machine = Network(loop), SimulatedMachine(loop)
        self.chance = loop.random_for(name)
        self.is_calm = False  # no more faults and deaths
        self.life = 0  # of the node
        self.serves = False
        self.node: Process | None = None
        self._faults = faults
        self._processes: dict[str, Process] = {}

    @property
    def now(self) -> float:
        return self.loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # The node

    @abstractmethod
    def topic(self) -> NewTopic:
        """That there has to be."""

    async def start(self) -> None:
        node = self.node = self.loop.process("node", HOST)
        while True:
            try:
                await node.run(self.loop.create_task, self.machine.start(self.loop, HOST, PORT))
                break
            except (HeadraceError, OSError):
                await asyncio.sleep(0.1)
        assert self.machine.node is not None
        await node.run(self.loop.create_task, self.machine.node.broker.make_sure_of([self.topic()]))
        self.life += 1
        self.serves = True

    async def strike_for(self, duration_s: float, count: int) -> None:
        """So many faults, in about that time."""
        for _ in range(count):
            await asyncio.sleep(self.chance.uniform(0, 2 * duration_s / count))
            await self._strike()

    async def _strike(self) -> None:
        kind = self.chance.choice(self._faults)
        self.loop.trace.add("fault", kind)
        if kind in (SYNC, FULL):
            self.machine.strike(kind)
            await asyncio.sleep(1)
            self.machine.heal(kind)
            return
        assert self.node is not None
        self.serves = False
        if kind == POWER:
            self.network.power_off(HOST)
        self.node.kill()
        self.machine.crash() if kind == KILL else self.machine.lose_power()
        await asyncio.sleep(self.chance.uniform(0, 3))
        if kind == POWER:
            self.network.power_on(HOST)
        await self.start()

    # The others

    def add_processes(self, names: Iterable[str]) -> None:
        self._processes |= {name: self.loop.process(name, name) for name in names}

    def process(self, name: str) -> Process:
        return self._processes[name]

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._processes[name].run(self.loop.create_task, work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.loop.fail(error)


async def ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    """All of them, or what was wrong with one."""
    await asyncio.wait(tasks)
    for task in tasks:
        task.result()


def run_to_end(loop: SimulatedLoop, seed: int, main: Coroutine[Any, Any, T]) -> T:
    """Raises what was wrong, with the seed."""
    try:
        return loop.run_until_complete(main)
    except Violation as violation:
        raise Violation(f"seed {seed}: {violation}") from violation
    except SimulationFault as fault:  # a promise that was broken while the node did something
        if isinstance(fault.__cause__, Violation):
            raise Violation(f"seed {seed}: {fault.__cause__}") from fault
        raise
