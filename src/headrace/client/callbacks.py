"""Calls that the loop has for the program: they are made by the program's own thread, while it waits for the loop. So a
callback may do what the program may, and never runs beside it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from headrace.client.portal import Portal

T = TypeVar("T")


class Callbacks:
    def __init__(self, portal: Portal) -> None:
        self._portal = portal
        self._asked: deque[tuple[Callable[[], None], asyncio.Future[None], bool]] = deque()
        self._changed = threading.Condition()
        self._waiting = 0  # threads of the program that are here

    async def ask(self, call: Callable[[], None], *, is_last: bool) -> None:
        """Waits until a thread of the program has made the call; `is_last`: not for one that is yet to come."""
        answer = asyncio.get_running_loop().create_future()
        with self._changed:
            if is_last and not self._waiting:
                return
            self._asked.append((call, answer, is_last))
            self._changed.notify_all()
        await answer

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it on the loop, waits for it, and makes calls meanwhile."""
        try:
            self._portal.check()
        except BaseException:
            work.close()
            raise
        with self._changed:
            self._waiting += 1  # before the loop hears of it, and asks
        future = asyncio.run_coroutine_threadsafe(work, self._portal.loop)
        future.add_done_callback(lambda _: self._wake())
        try:
            while not future.done():
                self._next()
            return future.result()
        except BaseException:
            future.cancel()
            raise
        finally:
            with self._changed:
                self._waiting -= 1
                if not self._waiting:
                    self._let_last_go()

    def _let_last_go(self) -> None:
        """It was asked for as the program left, and waits for nobody who is yet to come."""
        last = [answer for _, answer, is_last in self._asked if is_last]
        self._asked = deque(one for one in self._asked if not one[2])
        for answer in last if not self._portal.is_stopped else []:
            self._portal.soon(partial(_settle, answer, None))

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _next(self) -> None:
        with self._changed:
            if not self._asked:
                self._changed.wait(1.0)  # should the loop end meanwhile, the future is never done
                self._portal.check()
                return
            call, answer, _ = self._asked.popleft()
        error: BaseException | None = None
        try:
            call()
        except Exception as raised:  # noqa: BLE001 (told where the program reads)
            error = raised
        self._portal.soon(lambda: _settle(answer, error))


def _settle(answer: asyncio.Future[None], error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(None)
    else:
        answer.set_exception(error)
