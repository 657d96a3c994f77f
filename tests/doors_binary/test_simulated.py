"""The binary door in the simulated world: streams in tiny pieces, resets, cuts, hosts that vanish, a node that dies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from headrace.broker.broker import NewTopic
from headrace.doors.binary.limits import BinaryLimits
from headrace.node.node import Node
from headrace.node.settings import Address, Settings
from headrace.testing.loop import SimulatedLoop, simulated_loop
from headrace.testing.machine import DATA, OPEN_FILES, TAIL_MEMORY_BYTES, SimulatedMachine
from headrace.testing.network import Network
from headrace.testing.process import Process
from tests.doors_binary.raw import PUBLISH, SUBSCRIBE, Raw

PORT = 9999
BROKEN = (OSError, TimeoutError, asyncio.IncompleteReadError)
DURATION_S, CALM_S = 40.0, 900.0


class World:
    def __init__(self, loop: SimulatedLoop, **limits: int) -> None:
        self.loop, self.network, self.machine = loop, Network(loop), SimulatedMachine(loop)
        self.chance: random.Random = loop.random_for("binary")
        self.limits = BinaryLimits(**limits)
        self.events: list[tuple[str, dict[str, object]]] = []
        self.is_calm = False
        self.node: Node | None = None
        self._process: Process | None = None

    async def start(self) -> None:
        self._process = self.loop.process("node", "node")
        await self._process.run(self.loop.create_task, self._serve())

    async def _serve(self) -> None:
        machine, at = self.machine, Address("node", PORT)
        settings = Settings(
            data=DATA,
            kafka=None,
            binary=at,
            tail_memory_bytes=TAIL_MEMORY_BYTES,
            door_limits={"binary": self.limits},
        )
        self.node = Node(
            settings,
            files=machine.files,
            clock=machine.clock,
            background=machine.background,
            chance=machine.random,
            on_event=lambda name, fields: self.events.append((name, fields)),
            open_files=OPEN_FILES,
        )
        await self.node.start()
        await self.node.broker.make_sure_of([NewTopic("t", 1)])

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self.machine.crash()
        await asyncio.sleep(self.chance.uniform(0, 2))
        await self.start()

    def spawn(self, host: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.process(host, host).run(self.loop.create_task, work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.loop.fail(error)

    async def until(self, is_so: Callable[[], bool], within_s: float) -> None:
        for _ in range(int(within_s)):
            if is_so():
                return
            await asyncio.sleep(1)
        raise AssertionError(f"not so within {within_s} s")

    async def faults(self, hosts: list[str]) -> None:
        for _ in range(12):
            await asyncio.sleep(self.chance.uniform(0, 2 * DURATION_S / 12))
            match self.chance.choice(("reset", "reset", "cut", "kill")):
                case "reset" if self.network.ends:
                    self.network.reset(self.chance.choice(list(self.network.ends)))
                case "cut":
                    host = self.chance.choice(hosts)
                    self.network.cut(*self.chance.sample((host, "node"), 2))
                    await asyncio.sleep(self.chance.uniform(0, 5))
                    self.network.heal()
                case "kill":
                    await self.kill()
        self.is_calm = True


async def publishes(world: World, acknowledged: dict[int, bytes]) -> None:
    number = 0
    while not world.is_calm:
        with suppress(*BROKEN):
            client = await Raw.connect("node", PORT)
            while not world.is_calm:
                number += 1
                reply = await client.publish("t", b"%d" % number)
                if reply.properties["status"] == "success":
                    acknowledged[int(reply.properties["offset"])] = b"%d" % number
                await asyncio.sleep(world.chance.choice((0, 0, 0.01, 0.5)))
            client.close()
        await asyncio.sleep(0.2)


async def follows(world: World, name: str, got: list[bytes], is_done: asyncio.Event) -> None:
    """From where it is, whatever happens; each message is the one after the last."""
    while not is_done.is_set():
        with suppress(*BROKEN):
            client = await Raw.connect("node", PORT)
            asked = {"topic": "t", "client_id": name, "offset": str(len(got)), "replay": "true"}
            reply = await client.ask(SUBSCRIBE, asked)
            while reply.properties["status"] == "success" and not is_done.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(60):  # a heartbeat is due every 30 s
                        frame = await client.take()
                        if frame.type == 1:
                            assert frame.sequence == len(got), f"{name}: {frame.sequence} after {len(got) - 1}"
                            got.append(frame.body)
            client.close()
        await asyncio.sleep(0.5)


@pytest.mark.parametrize("seed", range(8))
def test_every_follower_gets_every_message_once_and_in_order_whatever_happens(seed: int) -> None:
    async def main() -> None:
        await world.start()
        is_done, acknowledged = asyncio.Event(), dict[int, bytes]()
        names = [f"s{number}" for number in range(3)]
        got: dict[str, list[bytes]] = {name: [] for name in names}
        tasks = [world.spawn(name, follows(world, name, got[name], is_done)) for name in names]
        tasks.append(world.spawn("p", publishes(world, acknowledged)))
        await world.faults([*names, "p"])
        await asyncio.sleep(60)
        await world.until(lambda: len({len(bodies) for bodies in got.values()}) == 1, CALM_S)
        is_done.set()
        await asyncio.wait(tasks)
        assert acknowledged and got["s0"] == got["s1"] == got["s2"]
        for offset, body in acknowledged.items():
            assert got["s0"][offset] == body

    with simulated_loop(seed, permute=True) as loop:
        world = World(loop)
        loop.run_until_complete(main())


def test_a_host_that_vanished_is_found_and_its_client_id_is_free_again() -> None:
    async def lost() -> None:
        client = await Raw.connect("node", PORT)
        await client.ask(SUBSCRIBE, {"topic": "t", "client_id": "C"})
        world.network.power_off("a")
        await asyncio.sleep(1e6)

    async def heir() -> None:
        await asyncio.sleep(10)
        while True:
            client = await Raw.connect("node", PORT)
            reply = await client.ask(SUBSCRIBE, {"topic": "t", "client_id": "C"})
            client.close()
            if reply.properties["status"] == "success":
                return
            assert reply.properties["error"] == "Client C already subscribed to t[0]"
            assert world.loop.time() < 30 * 60, "half an hour"
            await asyncio.sleep(10)

    async def main() -> None:
        await world.start()
        world.spawn("a", lost())
        await world.spawn("b", heir())

    with simulated_loop(1) as loop:
        world = World(loop)
        loop.run_until_complete(main())


def test_the_same_seed_gives_the_same_trace() -> None:
    def trace(seed: int) -> str:
        async def main() -> None:
            await world.start()
            got: list[bytes] = []
            is_done = asyncio.Event()
            follower = world.spawn("s", follows(world, "s", got, is_done))

            async def some() -> None:
                client = await Raw.connect("node", PORT)
                for number in range(20):
                    await client.ask(PUBLISH, {"topic": "t"}, b"%d" % number)

            await world.spawn("p", some())
            await world.until(lambda: len(got) == 20, CALM_S)
            is_done.set()
            await follower

        with simulated_loop(seed, permute=True) as loop:
            world = World(loop)
            loop.run_until_complete(main())
            return loop.trace.hash

    assert trace(3) == trace(3)
    assert trace(3) != trace(4)
