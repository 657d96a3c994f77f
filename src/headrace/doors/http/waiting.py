"""Requests that wait: long polls and streams. Each ends when something was appended, when its time is over, when its
client leaves, or when the node stops.

A request watches before it reads, so nothing that is appended in between is missed. It costs a future, a timer and a
task that listens for the client's end: thousands of them are cheap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Protocol

from headrace.broker.partition import Partition

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class ClientLeft(Exception):
    """Nobody is there to be answered."""


class Listening(Protocol):
    """Somebody who waits, and may leave."""

    def listen(self) -> asyncio.Future[None]:
        """Done when there is nobody any more."""
        ...


class Client:
    """The other side of one request, whose body is read already."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.left: asyncio.Task[None] | None = None

    def listen(self) -> asyncio.Task[None]:
        """From the first call on; before it nobody waits for the client's end."""
        if self.left is None:
            self.left = asyncio.ensure_future(_left(self._receive))
        return self.left

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        if self.left is not None:
            self.left.cancel()


class Waiting:
    """All of them."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._watches: set[Watching] = set()

    def __len__(self) -> int:
        return len(self._watches)

    def watching(self, partitions: Sequence[Partition], client: Listening) -> Watching:
        return Watching(self._watches, partitions, client, self.is_stopping)

    def stop(self) -> None:
        self.is_stopping = True
        for watch in tuple(self._watches):
            watch.stop()


class Watching:
    """One request that watches partitions, from `with` on."""

    def __init__(
        self, others: set[Watching], partitions: Sequence[Partition], client: Listening, is_stopping: bool
    ) -> None:
        self._others, self._partitions, self._client = others, partitions, client
        self.is_stopping = is_stopping
        self._is_woken = False
        self._future: asyncio.Future[None] | None = None

    def __enter__(self) -> Watching:
        self._others.add(self)
        for partition in self._partitions:
            partition.watch(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._others.discard(self)
        for partition in self._partitions:
            partition.unwatch(self)

    def wake(self, partition: Partition) -> None:
        self._is_woken = True
        self._end_wait()

    def stop(self) -> None:
        self.is_stopping = True
        self._end_wait()

    async def wait(self, timeout_s: float) -> bool:
        """True: something was appended since the last wait. ClientLeft when there is nobody any more."""
        if not self._is_woken and not self.is_stopping and timeout_s > 0:
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            timer = loop.call_later(timeout_s, self._end_wait)
            left = self._client.listen()
            left.add_done_callback(self._end_wait)
            try:
                await self._future
            finally:
                timer.cancel()
                left.remove_done_callback(self._end_wait)
                self._future = None
            if left.done():
                raise ClientLeft
        is_woken, self._is_woken = self._is_woken, False
        return is_woken

    def _end_wait(self, _: object = None) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
