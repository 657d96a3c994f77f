"""A thread with an event loop of its own: the way from ordinary calls into the async core.

The thread does not keep a program alive. A call that is interrupted (Ctrl-C) cancels what it waited for.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, ParamSpec, TypeVar

from headrace.errors import ClientClosed

T = TypeVar("T")
P = ParamSpec("P")

STOP_LIMIT_S: Final = 5.0


class Portal:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self.is_stopped = False
        self._thread = threading.Thread(target=self._run, name="headrace-client", daemon=True)
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it on the loop and waits."""
        try:
            self.check()
        except ClientClosed:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A plain function that must run on the loop."""

        async def work() -> T:
            return function(*args, **kwargs)

        return self.call(work())

    def soon(self, function: Callable[[], None]) -> None:
        self.check()
        self._loop.call_soon_threadsafe(function)

    def check(self) -> None:
        if os.getpid() != self._pid:
            raise ClientClosed("this client was made before a fork; connect again in the child process")
        if self.is_stopped:
            raise ClientClosed("the client is closed")
        if threading.current_thread() is self._thread:
            raise RuntimeError("a sync client cannot be called from its own callbacks: use headrace.aio there")

    def stop(self) -> None:
        if self.is_stopped or os.getpid() != self._pid:
            return
        self.is_stopped = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(STOP_LIMIT_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()
