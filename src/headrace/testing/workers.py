"""The Background port of a broker under test: real threads, and a count of what they have under way.

The count lets a test wait until nothing is going on. A disk can be made slow here: each piece of work then begins only
after its delay, which is the loop's time, so a test's clock can jump over it. What was begun by a process that has
died since has no more effect: its files refuse it, and nobody hears of its result.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 4  # of one pool; tests have few partitions, and threads cost a broker its start

Work = Callable[[], Any]
Done = Callable[[Any, BaseException | None], None]


class Slowness:
    """How long a slow disk takes, by seed. It outlives a restart: the disk is still slow then."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.seconds, self.jitter = 0.0, 0.0

    def delay_s(self) -> float:
        return self.seconds * self._chance.uniform(1 - self.jitter, 1 + self.jitter) if self.seconds else 0.0


class Workers:
    def __init__(self, loop: asyncio.AbstractEventLoop, slowness: Slowness) -> None:
        self._loop, self._slowness = loop, slowness
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="headrace-test")
        self._lock = threading.Lock()
        self._busy = 0
        self._delayed: dict[int, tuple[asyncio.TimerHandle, Work, Done]] = {}
        self._number = 0
        self._is_ending = False
        self.is_dead = False

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        delay_s = 0.0 if self._is_ending else self._slowness.delay_s()
        if delay_s:
            self._number += 1
            timer = self._loop.call_later(delay_s, self._begin_delayed, self._number)
            self._delayed[self._number] = timer, work, done
        else:
            self._begin(work, done)

    @property
    def is_busy(self) -> bool:
        """Something runs, or its result is on its way. What a slow disk has not begun does not count."""
        return self._busy > 0

    def hurry(self) -> None:
        """What a slow disk held back begins now."""
        for number in list(self._delayed):
            self._begin_delayed(number)

    def end(self) -> None:
        """A stop does not wait for a slow disk."""
        self._is_ending = True
        self.hurry()

    def die(self) -> None:
        """No work begins from now on, and no result arrives."""
        self.is_dead = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Waits for what is under way."""
        self._pool.shutdown(wait=True)

    def _begin_delayed(self, number: int) -> None:
        timer, work, done = self._delayed.pop(number)
        timer.cancel()
        self._begin(work, done)

    def _begin(self, work: Work, done: Done) -> None:
        if self.is_dead:
            return
        with self._lock:
            self._busy += 1
        self._pool.submit(self._work, work, done)

    def _work(self, work: Work, done: Done) -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001  # whatever it is, it is the caller's
            error = raised
        if not self.is_dead and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._back, done, result, error)

    def _back(self, done: Done, result: Any, error: BaseException | None) -> None:
        with self._lock:
            self._busy -= 1
        if not self.is_dead:
            done(result, error)
