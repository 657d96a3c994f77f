"""An event loop on virtual time: no clock, no sockets, no threads, and every choice from one seed.

- When nothing is ready, time jumps to the next timer. A second costs nothing; an hour neither.
- Ready callbacks run in the order in which they were scheduled, as asyncio promises. With `permute` the
  callbacks of different processes interleave by seed; inside one process the order stays, because programs
  may rely on it.
- An exception that nobody caught fails the run: `SimulationFault`. So does a run in which nothing can ever
  happen again (`Stalled`, saying who waits where), and one that exceeds its steps or its time
  (`LimitExceeded`).
- Callbacks of a killed process are not called (process.py).
- The garbage collector is off while the loop runs (`quiet_collector`): finalisers at the collector's moments
  would be an input that no seed controls.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import heapq
import random
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from headrace.testing import process as processes
from headrace.testing.disk import PowerLoss
from headrace.testing.process import Process
from headrace.testing.trace import Trace

if TYPE_CHECKING:
    from headrace.testing.network import Network

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# A step takes some 10 µs of real time: a run that spins is stopped within a minute.
MAX_STEPS = 5_000_000
# Longer than any timeout of ours by far: a run that is still waiting after this much virtual time will not
# end.
MAX_TIME_S = 7 * 24 * 3600.0
# What a hand-over to another thread and the wait for a core may take.
EXECUTOR_DELAY_S = (0.000_01, 0.005)


class SimulationFault(Exception):
    """Something went wrong that nobody handled; the run is void from there on."""


class Stalled(SimulationFault):
    """Nothing is scheduled and the main task is not done."""


class LimitExceeded(SimulationFault):
    """The run went on past its steps or its time."""


class SimulatedLoop(asyncio.BaseEventLoop):
    network: Network | None = None
    _stopping: bool  # asyncio's own: `stop()` sets it, `run_forever` looks at it after every `_run_once`

    def __init__(
        self,
        seed: int | str,
        *,
        permute: bool = False,
        max_steps: int = MAX_STEPS,
        max_time_s: float = MAX_TIME_S,
    ) -> None:
        super().__init__()
        self.seed = seed
        self.trace = Trace(self.time)
        self.steps = 0
        self.max_steps = max_steps
        self.max_time_s = max_time_s
        self._now = 0.0
        self._random = self.random_for("loop")
        self._permute = permute
        self._soon: deque[tuple[asyncio.Handle, Process | None]] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Process | None]] = []
        self._timer_number = 0
        self._running: Process | None = None
        self._processes: list[Process] = []
        self._fault: BaseException | None = None
        # what killed processes left behind, kept so that no finaliser of theirs runs
        self._dead: list[object] = []

    def random_for(self, purpose: str) -> random.Random:
        """A stream of its own for each purpose: a draw more here does not change what happens there."""
        return random.Random(f"{self.seed}/{purpose}")

    def process(self, name: str, host: str) -> Process:
        """Kept to the end even when killed, and with it the tasks that it never finished."""
        process = Process(name, host)
        self._processes.append(process)
        return process

    # Time and scheduling

    def time(self) -> float:
        return self._now

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._soon.append((handle, processes.of(context)))
        return handle

    call_soon_threadsafe = call_soon  # there is one thread

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_number += 1
        heapq.heappush(self._timers, (when, self._timer_number, timer, processes.of(context)))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def create_task(  # type: ignore[override]  # asyncio adds keyword arguments in newer versions
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        owner = processes.of(context)
        if owner is not None:
            owner.keep(task)
        return task

    def run_in_executor(self, executor: object, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """On this thread, after a while; the answer comes another while later, so that a crash fits between
        the two."""
        future: asyncio.Future[T] = self.create_future()

        def answer(result: T | None, error: BaseException | None) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def work() -> None:
            try:
                result, error = func(*args), None
            except (Exception, PowerLoss) as raised:  # noqa: BLE001  # whatever it is, it is the caller's
                result, error = None, raised
            self.call_later(self._random.uniform(*EXECUTOR_DELAY_S), answer, result, error)

        self.call_later(self._random.uniform(*EXECUTOR_DELAY_S), work)
        return future

    # Running

    def _run_once(self) -> None:
        self._wake_timers()
        batch = list(self._soon)
        self._soon.clear()
        if self._permute and len(batch) > 1:
            batch = self._interleave(batch)
        for handle, owner in batch:
            if owner is not None and not owner.alive:
                self._dead.append(handle)
                continue
            if handle.cancelled():
                continue
            self.steps += 1
            self._running = owner
            handle._run()
            if self._fault is not None:
                fault, self._fault = self._fault, None
                raise fault
        self._running = None
        if self.steps > self.max_steps:
            raise LimitExceeded(f"{self.steps} steps at {self._now:.3f} s of virtual time: the limit of steps")

    def _wake_timers(self) -> None:
        timers = self._timers
        while timers:
            when, _, timer, owner = timers[0]
            if timer.cancelled():
                heapq.heappop(timers)
                continue
            if owner is not None and not owner.alive:
                self._dead.append(heapq.heappop(timers)[2])
                continue
            if when > self._now:
                if self._soon or self._stopping:
                    return
                self._now = when
                if when > self.max_time_s:
                    raise LimitExceeded(f"{when:.0f} s of virtual time, {self.steps} steps: the limit of time")
            heapq.heappop(timers)
            self.trace.add("timer", f"{self.steps} {_name(timer)}")
            self._soon.append((timer, owner))
        if not self._soon and not self._stopping:
            raise Stalled(f"at {self._now:.6f} s nothing can happen any more; waiting are:\n{self._who_waits()}")

    def _interleave(
        self, batch: list[tuple[asyncio.Handle, Process | None]]
    ) -> list[tuple[asyncio.Handle, Process | None]]:
        queues: dict[Process | None, deque[tuple[asyncio.Handle, Process | None]]] = {}
        for entry in batch:
            queues.setdefault(entry[1], deque()).append(entry)
        lanes = list(queues.values())
        merged = []
        while lanes:
            lane = lanes[self._random.randrange(len(lanes))]
            merged.append(lane.popleft())
            if not lane:
                lanes.remove(lane)
        return merged

    def _who_waits(self) -> str:
        lines = []
        for task in sorted(asyncio.all_tasks(self), key=lambda task: task.get_name()):
            stack = task.get_stack()
            where = f"{stack[-1].f_code.co_filename}:{stack[-1].f_lineno}" if stack else "not started"
            lines.append(f"  {task.get_name()} {getattr(task.get_coro(), '__qualname__', '?')} at {where}")
        return "\n".join(lines) or "  (no task)"

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.is_closed() or (self._running is not None and not self._running.alive):
            return
        error = context.get("exception")
        fault = SimulationFault(f"{context.get('message')}: {error!r}")
        fault.__cause__ = error
        self.fail(fault)

    def fail(self, error: BaseException) -> None:
        """Ends the run with this error after the step that is being taken; the first one counts."""
        self._fault = self._fault or error

    # The network

    async def create_server(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        *,
        start_serving: bool = True,
        **options: Any,
    ) -> asyncio.Server:
        return self._the_network().listen(protocol_factory, host, port, start_serving)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        return await self._the_network().connect(protocol_factory, host, port)

    def _the_network(self) -> Network:
        if self.network is None:
            raise SimulationFault("this loop has no network: make a Network(loop) first")
        return self.network

    # The end

    def close(self) -> None:
        """Lets go of what killed processes left behind; their `finally` blocks run now and can reach
        nothing."""
        if self.is_closed():
            return
        waiting = asyncio.all_tasks(self)
        super().close()
        for task in waiting:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        with _deaf_to_finalisers():
            del waiting
            for process in self._processes:
                process.alive = False
                process.tasks.clear()
            self._processes.clear()
            self._soon.clear()
            self._timers.clear()
            self._dead.clear()


def _name(handle: asyncio.Handle) -> str:
    callback: Any = handle._callback  # type: ignore[attr-defined]
    while isinstance(callback, functools.partial):
        callback = callback.func
    return getattr(callback, "__qualname__", None) or type(callback).__qualname__


@contextlib.contextmanager
def _deaf_to_finalisers() -> Iterator[None]:
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = hook


@contextlib.contextmanager
def quiet_collector() -> Iterator[None]:
    """No garbage collection inside; afterwards one that looks only at what came since. What was garbage before stays so
    meanwhile: to look through all that a long test run holds would take longer than most simulations."""
    was_on = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        with _deaf_to_finalisers():
            gc.collect()
        gc.unfreeze()
        if was_on:
            gc.enable()


@contextlib.contextmanager
def simulated_loop(seed: int | str, **options: Any) -> Iterator[SimulatedLoop]:
    with quiet_collector():
        loop = SimulatedLoop(seed, **options)
        try:
            yield loop
        finally:
            loop.close()
            del loop
