"""`AsyncHttpClient`: `HttpClient` for programs on an event loop; each call is made on a thread of its own client.

    async with AsyncHttpClient("127.0.0.1:8081") as client:
        await client.publish("orders", {"total": 12})
        async for record in client.consume("orders", group_id="billing", consumer_id="c1"):
            ...

A long poll or a stream takes a thread while it waits: `THREADS` calls are under way at a time, further ones wait their
turn. A call that is cancelled gives its thread back when its answer comes; `close` ends all of them at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from headrace.compat import http_values as values
from headrace.compat.http_client import HttpClient
from headrace.compat.http_values import HttpRecord, Json, Polled, Published, Result
from headrace.errors import ClientClosed

THREADS = 8
T = TypeVar("T")


class AsyncHttpClient:
    def __init__(
        self, addresses: str | Iterable[str] = f"{values.HOST}:{values.PORT}", *, timeout: float = values.TIMEOUT_S
    ) -> None:
        self.sync = HttpClient(addresses, timeout=timeout)
        self._is_closed = False
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="headrace-http")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self._is_closed = True
        self.sync.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def request(self, method: str, path: str, body: Json = None) -> Json:
        return await self._run(partial(self.sync.request, method, path, body))

    async def publish(
        self,
        topic: str,
        value: Json,
        key: str | None = None,
        headers: Mapping[str, Json] | None = None,
        **more: Json,
    ) -> Published:
        return await self._run(partial(self.sync.publish, topic, value, key, headers, **more))

    async def publish_many(self, topic: str, records: Iterable[Mapping[str, Json]], **more: Json) -> list[Result]:
        return await self._run(partial(self.sync.publish_many, topic, list(records), **more))

    async def subscribe(self, topic: str, **more: Json) -> dict[str, Json]:
        return await self._run(partial(self.sync.subscribe, topic, **more))

    async def poll(self, topic: str, **more: Json) -> Polled:
        return await self._run(partial(self.sync.poll, topic, **more))

    async def commit(self, topic: str, offset: int, **more: Json) -> int:
        return await self._run(partial(self.sync.commit, topic, offset, **more))

    def consume(self, topic: str, **more: Json) -> AsyncIterator[HttpRecord]:
        return self._all(self.sync.consume(topic, **more))

    def records(self, topic: str, **bounds: Json) -> AsyncIterator[HttpRecord]:
        return self._all(self.sync.records(topic, **bounds))

    def stream(self, topic: str, **more: Json) -> AsyncIterator[HttpRecord]:
        return self._all(self.sync.stream(topic, **more))

    async def create_topic(self, name: str, **more: Json) -> dict[str, Json]:
        return await self._run(partial(self.sync.create_topic, name, **more))

    async def delete_topic(self, name: str) -> None:
        await self._run(partial(self.sync.delete_topic, name))

    async def topics(self) -> dict[str, Json]:
        return await self._run(self.sync.topics)

    async def _run(self, call: Callable[[], T]) -> T:
        if self._is_closed:
            raise ClientClosed("the client was closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def _all(self, found: Iterator[HttpRecord]) -> AsyncIterator[HttpRecord]:
        while (record := await self._run(partial(next, found, None))) is not None:
            yield record
