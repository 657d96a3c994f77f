"""A whole run from one seed: a node on a simulated machine, clients, faults, and the promises checked after.

    python -m headrace.testing.simulation --seed 7              one run
    python -m headrace.testing.simulation --seed 1 --count 50   fifty runs

The same seed is the same run, byte for byte.

The node is the real one; only its machine (disk, clock, threads, sockets) is simulated. Faults strike at
seeded moments, also while the node starts or stops. When they are over the node must serve again: every
waiting producer gets its answer, and the log is read and checked; then the power fails once more, and it is
checked again.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from headrace.errors import HeadraceError
from headrace.testing import faults, workload
from headrace.testing.faults import Fault
from headrace.testing.history import History, Violation
from headrace.testing.kafka import Broken, KafkaClient, Refused
from headrace.testing.loop import SimulatedLoop, simulated_loop
from headrace.testing.machine import Machine, SimulatedMachine
from headrace.testing.network import Network
from headrace.testing.process import Process
from headrace.testing.workload import Admin, Consumer, Producer, Target

Client = Producer | Consumer | Admin

HOST, PORT, TOPIC = "node", 9092, "simulated"
# After the last fault: more than every timeout and back-off of the clients together, a few times over.
RECOVERY_S = 120.0
TOPIC_EXISTS = 36
# Small, so that a run of seconds rolls segments.
TOPIC_CONFIGS = {"segment.bytes": "65536"}
# As many changes of the disk as a few produce requests make, or a start.
MAX_CHANGES_TO_POWER_LOSS = 60


@dataclass(frozen=True)
class Options:
    """Each is a flag of the command too, so that every run can be replayed by it."""

    duration_s: float = 5.0
    producers: int = 3
    consumers: int = 1
    partitions: int = 2
    most_faults: int = 8
    kinds: str = ",".join(faults.KINDS)
    power_at: int = -1  # a power loss in the middle of that change of the disk, counted from the first start

    def flags(self) -> str:
        changed = {field.name: getattr(self, field.name) for field in fields(self)}
        changed = {name: value for name, value in changed.items() if value != getattr(DEFAULTS, name)}
        return "".join(f" --{name.replace('_', '-')} {value}" for name, value in changed.items())


DEFAULTS = Options()


class Result(NamedTuple):
    seed: int
    trace_hash: str
    steps: int
    batches: int
    acknowledged: int
    reads: int
    faults: list[Fault]


class SimulationFailed(Exception):
    """A broken promise or an unhandled error, with the way to see it again."""

    def __init__(self, seed: int, options: Options, error: BaseException, last_lines: list[str]) -> None:
        super().__init__(
            f"seed {seed}: {type(error).__name__}: {error}\n"
            f"replay: python -m headrace.testing.simulation --seed {seed}{options.flags()}"
        )
        self.seed, self.last_lines = seed, last_lines


def run(seed: int, machine: Callable[[SimulatedLoop], Machine], options: Options = DEFAULTS) -> Result:
    """One run. Raises SimulationFailed."""
    with simulated_loop(seed, permute=True) as loop:
        simulation = Simulation(seed, loop, machine(loop), options)
        try:
            loop.run_until_complete(simulation.main())
        except Exception as error:
            raise SimulationFailed(seed, options, error, list(loop.trace.lines)) from error
        return simulation.result()


class Simulation:
    def __init__(self, seed: int, loop: SimulatedLoop, machine: Machine, options: Options) -> None:
        self.seed, self.loop, self.machine, self.options = seed, loop, machine, options
        self.network = Network(loop)
        self.history = History()
        machine.on_forgotten = lambda: self.history.lost_power(loop.time())  # until then it went on in good faith
        self.target = Target(HOST, PORT, TOPIC, options.partitions, self.history, loop.trace)
        self.random = loop.random_for("simulation")
        self.plan = faults.plan(self.random, options.duration_s, options.kinds.split(","), options.most_faults)
        self.serving = asyncio.Event()
        self._node: Process | None = None
        self._excuses = 0  # faults of the disk under way: the node may fail to start
        names = [f"p{number}" for number in range(options.producers)]
        self.producers = [Producer(name, self.target, loop.random_for(name)) for name in names]
        names = [f"r{number}" for number in range(options.consumers)]
        self.consumers = [Consumer(name, self.target, loop.random_for(name)) for name in names]
        self.admin = Admin("admin", self.target, loop.random_for("admin"))
        self.clients: list[Client] = [*self.producers, self.admin, *self.consumers]

    def result(self) -> Result:
        acknowledged = sum(batch.acked_at is not None for batch in self.history.batches)
        return Result(
            self.seed, self.loop.trace.hash, self.loop.steps, len(self.history.batches), acknowledged,
            self.history.reads, self.plan,
        )  # fmt: skip

    async def main(self) -> None:
        for fault in self.plan:
            self.loop.trace.add("plan", f"{fault.kind} at {fault.at_s:.3f} for {fault.lasts_s:.3f}")
        if self.options.power_at >= 0:
            self.machine.lose_power_at(self.options.power_at, self._power_loss)
        self._spawn("init", self._supervise())
        await self.serving.wait()
        await self._spawn("founder", self._create_topic())
        work = [self._spawn(each.name, each.run()) for each in self.clients]
        struck = [self._spawn("fate", self._strike(fault)) for fault in self.plan]
        await asyncio.sleep(self.options.duration_s)
        await asyncio.gather(*struck)
        await self._recover()
        await self._finish(work)
        await self._audit()
        self._power_loss()
        await self._audit()

    # The node's life

    async def _supervise(self) -> None:
        while True:
            node = self._node = self.loop.process("node", HOST)
            died = self.loop.create_future()
            node.on_kill(lambda died=died: died.set_result(None))  # type: ignore[misc]
            self._watch(node, node.run(self.loop.create_task, self._start(node)))
            await died
            self.serving.clear()
            await asyncio.sleep(self.random.choice((0.001, 0.1, 1.0)))
            if not self.network.host(HOST).up:
                self.network.power_on(HOST)

    async def _start(self, node: Process) -> None:
        self.loop.trace.add("node", "starts")
        try:
            await self.machine.start(self.loop, HOST, PORT)
        except (HeadraceError, OSError) as error:
            self.loop.trace.add("node", f"does not start: {type(error).__name__}")
            if not self._excuses:
                raise
            self.loop.call_soon(self._kill, node)
            return
        self.loop.trace.add("node", "serves")
        self.serving.set()

    def _kill(self, node: Process | None = None) -> None:
        node = node or self._node
        if node is not None and node.alive:
            self.loop.trace.add("node", "killed")
            node.kill()
            self.machine.crash()

    def _power_loss(self) -> None:
        self.network.power_off(HOST)
        if self._node is not None and self._node.alive:
            self._node.kill()
        self.machine.lose_power()
        self.history.lost_power(self.loop.time())

    async def _stop(self) -> None:
        """Asks the node to stop, and waits until it has."""
        node = self._node
        if node is None or not node.alive or not self.serving.is_set():
            return
        stopped = self.loop.create_future()

        async def stop() -> None:
            await self.machine.stop()
            end()

        def end() -> None:
            if not stopped.done():
                stopped.set_result(None)

        node.on_kill(end)
        self.loop.trace.add("node", "stops")
        self._watch(node, node.run(self.loop.create_task, stop()))
        try:
            async with asyncio.timeout(RECOVERY_S):
                await stopped
        except TimeoutError:
            raise Violation(f"the node was asked to stop and had not after {RECOVERY_S:.0f} s") from None
        self._kill(node)

    # Faults

    async def _strike(self, fault: Fault) -> None:
        await asyncio.sleep(fault.at_s)
        self.loop.trace.add("fault", fault.kind)
        match fault.kind:
            case "kill":
                self._kill()
            case "power" if self.random.random() < 0.5:
                self.machine.lose_power_at(self.random.randrange(MAX_CHANGES_TO_POWER_LOSS), self._power_loss)
            case "power":
                self._power_loss()
            case "stop":
                await self._stop()
            case "reset":
                for end in [end for end in self.network.ends if self.random.random() < 0.5]:
                    self.network.reset(end)
            case "drop":
                for end in [end for end in self.network.ends if end.host != HOST and self.random.random() < 0.5]:
                    self.network.drop(end)
            case "cut":
                await self._cut(fault.lasts_s)
            case _:
                await self._fault_of_the_machine(fault)

    async def _cut(self, lasts_s: float) -> None:
        client = self.random.choice(self.clients).name
        direction = self.random.randrange(3)
        if direction != 0:
            self.network.cut(HOST, client)
        if direction != 1:
            self.network.cut(client, HOST)
        await asyncio.sleep(lasts_s)
        self.network.heal()

    async def _fault_of_the_machine(self, fault: Fault) -> None:
        self._excuses += 1
        self.machine.strike(fault.kind)
        self._excuse_losses(fault)
        await asyncio.sleep(fault.lasts_s)
        self.machine.heal(fault.kind)
        self._excuse_losses(fault)
        self._excuses -= 1
        if fault.kind in ("sync", "forget") and self.random.random() < 0.5:
            self._kill()

    def _excuse_losses(self, fault: Fault) -> None:
        """What was not synced may be gone, as after a power loss."""
        if fault.kind == "forget":
            self.history.lost_power(self.loop.time())

    # The end

    async def _recover(self) -> None:
        self.loop.trace.add("fault", "all over")
        self.network.heal()
        for kind in ("full", "sync", "forget", "power"):
            self.machine.heal(kind)
        self.admin.stopping = True
        for producer in self.producers:
            producer.stopping = True

    async def _finish(self, work: list[asyncio.Task[Any]]) -> None:
        waiting = {client.name: task for client, task in zip(self.clients, work, strict=True)}
        for consumer in self.consumers:
            del waiting[consumer.name]
        await asyncio.wait(waiting.values(), timeout=RECOVERY_S)
        names = [name for name, task in waiting.items() if not task.done()]
        if names:
            raise Violation(f"{RECOVERY_S:.0f} s after the last fault {', '.join(names)} still wait for answers")
        for consumer in self.consumers:
            consumer.stopping = True
        await asyncio.wait(work)

    async def _audit(self) -> None:
        found = await self._spawn("auditor", self._read_all())
        for partition, (start, end, log) in found.items():
            self.history.check(partition, start, end, log)
            self.history.watermark(partition, end, self.history.synced_end.get(partition, 0))
        self.loop.trace.add("audit", " ".join(f"p{p}:{start}-{end}" for p, (start, end, _) in found.items()))

    async def _read_all(self) -> Any:
        deadline = self.loop.time() + RECOVERY_S
        while True:
            try:
                return await workload.read_all(self.target, self.random)
            except (Broken, Refused) as error:
                self.loop.trace.add("client", f"auditor tries again: {type(error).__name__} {error}")
                if self.loop.time() > deadline:
                    raise Violation(f"{RECOVERY_S:.0f} s after all faults, the log does not read: {error}") from error
                await asyncio.sleep(0.1)

    async def _create_topic(self) -> None:
        async with asyncio.timeout(RECOVERY_S):
            while True:
                try:
                    client = await KafkaClient.connect(HOST, PORT, "founder", self.random)
                    await client.create_topic(TOPIC, self.options.partitions, TOPIC_CONFIGS)
                    client.close()
                    return
                except Refused as error:
                    if error.code == TOPIC_EXISTS:
                        return
                    raise
                except Broken:
                    await asyncio.sleep(0.1)

    # Tasks whose errors end the run

    def _spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        process = self.loop.process(name, name)
        return self._watch(process, process.run(self.loop.create_task, work))

    def _watch(self, process: Process, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        def ended(task: asyncio.Task[Any]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None and process.alive:
                self.loop.fail(error)

        task.add_done_callback(ended)
        return task


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a node in a simulated world, with faults, from a seed.")
    parser.add_argument("--seed", type=int, default=1, help="the run, or the first of several")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--trace", type=int, default=0, metavar="LINES", help="of a run that fails: its last lines")
    for field in fields(Options):
        default = getattr(DEFAULTS, field.name)
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(default), default=default)
    arguments = parser.parse_args()
    options = Options(**{field.name: getattr(arguments, field.name) for field in fields(Options)})
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        try:
            result = run(seed, SimulatedMachine, options)
        except SimulationFailed as failure:
            if arguments.trace:
                print("\n".join(failure.last_lines[-arguments.trace :]))
            traceback.print_exception(failure)
            return 1
        kinds = " ".join(fault.kind for fault in result.faults) or "no faults"
        print(
            f"seed {seed}: {result.acknowledged} of {result.batches} batches acknowledged, "
            f"{result.reads} reads, {result.steps} steps, {kinds}; trace {result.trace_hash[:16]}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
