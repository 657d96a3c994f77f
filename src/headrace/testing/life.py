"""One life of a node under test: a thread with its own loop, from a start to a stop or to a sudden death.

The node is the one that `headrace serve` runs, on real sockets. `crash` is what kill -9 is to a process: connections
are reset, nothing is flushed, drained or answered, and no file is reached any more. What remains in memory is then
unwound without a word, so that a test suite may do this thousands of times.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, InvalidStateError
from typing import Any, TypeVar

from headrace.errors import HeadraceError
from headrace.node.node import Node
from headrace.node.settings import Settings
from headrace.testing.clock import MovableClock, MovableLoop, nanoseconds, reset
from headrace.testing.events import FAULT
from headrace.testing.faulty import FaultyDisk, Killed, LifeFiles
from headrace.testing.workers import Slowness, Workers

T = TypeVar("T")

OPEN_FILES = 256  # a test process has other uses for the rest
ANSWER_LIMIT_S = 60.0  # nothing that a test asks of its broker takes long; longer than this it hangs
FAULTS_KEPT = 3  # to be told with a failure
QUIET_TURNS = 8  # of the loop with nothing to do: longer than any chain of calls that hand on to each other
EXACT_S = 15 * 60.0  # a clock that is moved by no more than this goes from timer to timer,
EXACT_END_S = 60.0  # and so does the end of any move
STRIDES = 500  # in which it takes the rest: a year costs no more than a day
LEAST_STRIDE_NS = 100_000  # timers that come thicker than this are worked off together


class NotRunning(HeadraceError):
    """Something was asked of a broker that is down: stopped, crashed, or of another process."""


class DidNotSettle(HeadraceError):
    """The broker under test hangs, or works on and on."""


class Life:
    def __init__(
        self,
        settings: Settings,
        clock: MovableClock,
        disk: FaultyDisk,
        slowness: Slowness,
        chance: random.Random,
        on_event: Callable[[str, dict[str, object]], None],
    ) -> None:
        self._clock, self._disk, self._on_event = clock, disk, on_event
        self._loop = loop = MovableLoop(clock)
        self._files: LifeFiles = disk.open_life()
        self._workers = Workers(loop, slowness), Workers(loop, slowness), Workers(loop, slowness)
        self._is_dead = False
        self._faults: list[str] = []
        self._asked: set[Future[Any]] = set()  # by threads that wait
        loop.set_exception_handler(self._fault)
        self.node = Node(
            settings,
            files=self._files,
            clock=clock,
            background=self._workers[0],
            log_background=self._workers[1],
            sync_background=self._workers[2],
            end_background=self._end_background,
            chance=chance,
            on_event=self._event,
            open_files=OPEN_FILES,
            disk_space=disk.space,
        )
        self._thread = threading.Thread(target=self._run, name="headrace-broker", daemon=True)

    # From other threads

    def start(self) -> None:
        self._thread.start()
        try:
            self.call(self.node.start)
        except BaseException:
            self.crash()
            raise

    def stop(self) -> None:
        """Answers what is under way, syncs, closes."""
        try:
            self.call(self._stop)
        finally:
            self.crash()  # what a clean stop leaves: the loop

    def crash(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._die)
            self._thread.join(ANSWER_LIMIT_S)
            if self._thread.is_alive():
                raise DidNotSettle(f"the broker's thread did not end within {ANSWER_LIMIT_S:.0f} s:\n{self.where()}")

    def call(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Runs it on the broker's loop, and waits."""
        asked: Future[T] = Future()
        self._asked.add(asked)
        try:
            self._loop.call_soon_threadsafe(self._begin, function, args, asked)
            return asked.result(ANSWER_LIMIT_S)
        except (CancelledError, RuntimeError) as error:
            if not self._is_dead:
                raise
            raise NotRunning("the broker went down meanwhile") from error
        except TimeoutError:
            if asked.done():
                raise
            raise DidNotSettle(
                f"no answer within {ANSWER_LIMIT_S:.0f} s; the broker is here:\n{self.where()}"
            ) from None
        finally:
            self._asked.discard(asked)
            asked.cancel()

    def _begin(self, function: Callable[..., Coroutine[Any, Any, T]], args: tuple[Any, ...], asked: Future[T]) -> None:
        if not asked.done():
            _chain(self._loop.create_task(function(*args)), asked)

    def where(self) -> str:
        """What it is doing, and what went wrong before: the likely cause."""
        tasks = [str(task) for task in asyncio.all_tasks(self._loop)] if not self._loop.is_closed() else []
        return "\n".join([*self._faults, *tasks]) or "no task is under way"

    def sockets(self) -> list[int]:
        """Their descriptors."""
        listening = [end.fileno() for server in list(self._loop.servers) for end in server.sockets]
        ends = [transport.get_extra_info("socket") for transport in list(self._loop.transports)]
        return listening + [end.fileno() for end in ends if end is not None]

    # On the loop

    async def advance(self, seconds: float) -> None:
        """Goes from timer to timer, and lets each be worked off before the next; then all periodic work is done."""
        loop, left = self._loop, nanoseconds(seconds)
        exact = left if seconds <= EXACT_S else nanoseconds(EXACT_END_S)
        least = (left - exact) // STRIDES
        called_to = loop.time()
        await self.settle(turns=2)
        while left > 0:
            to_next = min(loop.next_timer(called_to) - loop.time(), seconds)
            stride = min(left, max(nanoseconds(to_next), LEAST_STRIDE_NS if left <= exact else least))
            self._clock.move(stride)
            left -= stride
            called_to = loop.time()
            await self.settle(turns=2)
        self.node.catch_up()
        await self.settle()

    async def settle(self, turns: int = QUIET_TURNS) -> None:
        """Until nothing is under way: no thread at work, no result on its way."""
        quiet = 0
        while quiet < turns:
            if any(workers.is_busy for workers in self._workers):
                quiet = 0
                await asyncio.sleep(0.0002)
            else:
                quiet += 1
                await asyncio.sleep(0)

    async def drop_connections(self, share: float, chance: random.Random) -> int:
        dropped = [each for each in self._loop.open_transports() if chance.random() < share]
        for transport in dropped:
            reset(transport)
        await self.settle()
        return len(dropped)

    async def connections(self) -> int:
        return len(self._loop.open_transports())

    async def hurry(self) -> None:
        """What a slow disk held back is done now."""
        for workers in self._workers:
            workers.hurry()

    async def _stop(self) -> None:
        for workers in self._workers:
            workers.end()
        await self.node.stop()

    # The thread

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._unwind()

    def _die(self) -> None:
        self._is_dead = self._files.is_dead = True
        try:
            for server in list(self._loop.servers):
                server.close()
            for transport in list(self._loop.transports):
                reset(transport)
            for workers in self._workers:
                workers.die()
        finally:
            self._loop.stop()

    def _unwind(self) -> None:
        loop = self._loop
        try:
            loop.run_until_complete(self._leave_nothing())
        finally:
            loop.close_accepted()
            loop.close()
            self._end_background()
            self._disk.close_handles()
            for asked in self._asked.copy():
                asked.cancel()

    async def _leave_nothing(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(QUIET_TURNS):  # connections that were reset hear of it
            await asyncio.sleep(0)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()

    def _end_background(self) -> None:
        for workers in self._workers:
            workers.close()

    def _event(self, name: str, fields: dict[str, object]) -> None:
        if not self._is_dead:
            self._on_event(name, fields)

    def _fault(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self._is_dead or isinstance(error, Killed):
            return
        text = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
        self._faults = [*self._faults, text][-FAULTS_KEPT:]
        self._on_event(FAULT, {"message": context.get("message"), "traceback": text})


def _chain(task: asyncio.Task[T], asked: Future[T]) -> None:
    """The result of the one is that of the other, unless nobody waits any more."""

    def ended(_: object) -> None:
        if task.cancelled():
            asked.cancel()
            return
        error = task.exception()
        with contextlib.suppress(InvalidStateError):
            asked.set_exception(error) if error is not None else asked.set_result(task.result())

    task.add_done_callback(ended)
