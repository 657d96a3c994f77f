"""A client of server-sent events of its own: the bytes, as the standard has them."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol

from tests.doors_http.running import LIMIT_S


class Door(Protocol):
    async def socket(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]: ...


class Stream:
    """`async with Stream(door, "/topics/t/stream") as stream:`, where `door` opens sockets."""

    def __init__(self, web: Door, path: str, last_id: str | None = None) -> None:
        self._web, self._path, self._last_id = web, path, last_id

    async def __aenter__(self) -> Stream:
        self.reader, self.writer = await self._web.socket()
        more = "" if self._last_id is None else f"Last-Event-ID: {self._last_id}\r\n"
        self.writer.write(f"GET {self._path} HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n{more}\r\n".encode())
        self.head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), LIMIT_S)
        self._buffer = b""
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def _block(self) -> bytes:
        while b"\n\n" not in self._buffer:
            size = int(await asyncio.wait_for(self.reader.readline(), LIMIT_S), 16)
            if not size:
                raise EOFError
            self._buffer += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        block, _, self._buffer = self._buffer.partition(b"\n\n")
        return block

    async def event(self) -> dict[str, Any]:
        while True:
            fields = dict(line.split(b": ", 1) for line in (await self._block()).split(b"\n") if b": " in line)
            if b"data" in fields:
                found: dict[str, Any] = {name.decode(): value.decode() for name, value in fields.items()}
                return {**found, "data": json.loads(found["data"])}

    async def offsets(self, count: int) -> list[int]:
        return [(await self.event())["data"]["offset"] for _ in range(count)]
