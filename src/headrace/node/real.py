"""The real clock, the loop's timers and the real threads behind the ports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from headrace.ports import Cancel

T = TypeVar("T")

THREADS = 8  # of one pool: reads that miss memory, and recovery; or the log's housekeeping


class RealClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)  # asked for with each request: the system's own, without a frame of ours


class LoopTimers:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def after(self, seconds: float, call: Callable[[], object]) -> Cancel:
        return (self._loop.call_later(seconds, call) if seconds > 0 else self._loop.call_soon(call)).cancel


class Threads:
    """Background by a pool of threads; results come back on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = THREADS) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="headrace")

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        def back(ended: Future[T]) -> None:
            if not self._loop.is_closed():
                error = ended.exception()
                self._loop.call_soon_threadsafe(done, None if error else ended.result(), error)

        self._pool.submit(work).add_done_callback(back)

    def close(self) -> None:
        """Waits for what is under way."""
        self._pool.shutdown(wait=True)
