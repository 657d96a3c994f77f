"""Where a sync producer's thread leaves records for the loop: one wake-up for many records, in the order they came.

Bounded: a thread that puts faster than the loop takes waits here, and the loop waits while the producer's buffer is
full, so that `buffer_bytes` bounds a sync producer too.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from typing import Final

from headrace.client.portal import Portal
from headrace.client.producer import Content, GivenHeaders, Producer
from headrace.client.values import Delivery
from headrace.errors import ClientClosed, HeadraceError

MAX_LETTERS: Final = 10_000  # put and not taken by the loop yet
NAP_S: Final = 0.000_5  # before the loop is asleep: to wake it costs more than many letters do
ROUND: Final = 1_000  # taken before the loop looks after the rest of its work

Letter = tuple[str, Content, Content, GivenHeaders | None, int | None, int | None]
Promise = concurrent.futures.Future[Delivery]


class Mailbox:
    def __init__(self, portal: Portal, producer: Producer) -> None:
        self._portal, self._producer = portal, producer
        self._letters: deque[tuple[Letter, Promise]] = deque()
        self._is_awake = False  # the loop looks into the box
        self._is_empty = True  # the producer has all letters
        self._changed = threading.Condition()
        self.is_closed = False

    def put(self, letter: Letter) -> Promise:
        promise: Promise = concurrent.futures.Future()
        with self._changed:
            while len(self._letters) >= MAX_LETTERS:
                self._portal.check()
                self._changed.wait(1.0)
            if self.is_closed:  # looked at last: who closes waits for all letters that are in the box by then
                raise ClientClosed("the producer is closed")
            self._letters.append((letter, promise))
            is_asleep, self._is_awake, self._is_empty = not self._is_awake, True, False
        if is_asleep:
            self._portal.soon(self._start)
        return promise

    def wait_until_empty(self) -> None:
        """Until the producer has all of them."""
        with self._changed:
            while not self._is_empty:
                self._portal.check()
                self._changed.wait(1.0)

    def close(self) -> None:
        with self._changed:
            self.is_closed = True
        self.wait_until_empty()

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._empty())
        self._task.add_done_callback(self._ended)

    async def _empty(self) -> None:
        letters, producer = self._letters, self._producer
        while True:
            for _ in range(ROUND):
                if not letters:
                    break
                letter, promise = letters.popleft()
                if not promise.set_running_or_notify_cancel():  # from here on it cannot be cancelled
                    continue
                try:
                    await producer.place(promise, *letter)
                except Exception as error:  # noqa: BLE001 (it is the caller's, whatever it is)
                    _fail(promise, error)
                    producer.missed(error if isinstance(error, HeadraceError) else HeadraceError(repr(error)))
                except asyncio.CancelledError:
                    _fail(promise, ClientClosed("the client was closed"))
                    raise
            with self._changed:
                self._is_empty = not letters
                self._changed.notify_all()
            await asyncio.sleep(0 if letters else NAP_S)
            with self._changed:
                if not letters:
                    self._is_awake = False
                    return

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Cancelled, with its loop: what it did not take, nobody will."""
        if not task.cancelled():
            return
        with self._changed:
            letters, self.is_closed, self._is_empty = list(self._letters), True, True
            self._letters.clear()
            self._changed.notify_all()
        for _, promise in letters:
            if promise.set_running_or_notify_cancel():
                _fail(promise, ClientClosed("the client was closed"))


def _fail(promise: Promise, error: BaseException) -> None:
    if not promise.done():
        promise.set_exception(error)
