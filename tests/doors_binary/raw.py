"""A client of the binary protocol that knows nothing of ours: struct, sockets, and the table of frames."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field

DATA, ACK, HEARTBEAT, CREATE_TOPIC, SUBSCRIBE, UNSUBSCRIBE, PUBLISH = range(1, 8)
LIMIT_S = 20.0  # for what takes milliseconds; the machine may be busy
AT_MS = 1755518400500


def block(properties: dict[str, str] | list[tuple[str, str]]) -> bytes:
    pairs = properties.items() if isinstance(properties, dict) else properties
    return b"".join(f"{key}={value}".encode() + b"\0" for key, value in pairs)


def frame(type_: int, sequence: int, properties: dict[str, str], body: bytes = b"", at_ms: int = AT_MS) -> bytes:
    """As the original client builds it: with created_at and version at the end."""
    whole = {**properties, "created_at": repr(at_ms / 1000), "version": "1.0"}
    return bare(type_, sequence, block(whole), body, at_ms)


def bare(type_: int, sequence: int, props: bytes, body: bytes = b"", at_ms: int = AT_MS) -> bytes:
    total = 32 + len(props) + len(body)
    return struct.pack(">IIQQII", total, type_, sequence, at_ms, len(props), len(body)) + props + body


def as_on_paper(whole: bytes) -> bytes:
    """The same frame with the body's length behind the properties."""
    (size,) = struct.unpack_from(">I", whole, 24)
    return whole[:28] + whole[32 : 32 + size] + whole[28:32] + whole[32 + size :]


@dataclass(frozen=True)
class Got:
    type: int
    sequence: int
    at_ms: int
    pairs: list[tuple[str, str]] = field(compare=False)
    body: bytes
    raw: bytes = field(repr=False)

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.pairs)

    @property
    def said(self) -> list[tuple[str, str]]:
        """Without what every frame ends with."""
        assert [key for key, _ in self.pairs[-2:]] == ["created_at", "version"], self.pairs
        assert self.pairs[-1][1] == "1.0"
        return self.pairs[:-2]


def parse(raw: bytes) -> Got:
    total, type_, sequence, at_ms, size, body = struct.unpack_from(">IIQQII", raw)
    assert total == len(raw) == 32 + size + body
    entries = raw[32 : 32 + size].split(b"\0")
    assert entries.pop() == b""  # the block ends in a zero
    pairs = [entry.decode().split("=", 1) for entry in entries]
    return Got(type_, sequence, at_ms, [(key, value) for key, value in pairs], raw[32 + size :], raw)


class Raw:
    """One connection. Its sequence numbers start at 1."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.sequence = 0

    @classmethod
    async def connect(cls, host: str, port: int) -> Raw:
        return cls(*await asyncio.open_connection(host, port))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def take(self) -> Got:
        async with asyncio.timeout(LIMIT_S):
            length = await self.reader.readexactly(4)
            return parse(length + await self.reader.readexactly(int.from_bytes(length) - 4))

    async def ask(self, type_: int, properties: dict[str, str], body: bytes = b"") -> Got:
        """The next frame that comes, which is to be the reply; heartbeats of the server may come at any time."""
        self.sequence += 1
        await self.send(frame(type_, self.sequence, properties, body))
        got = await self.take()
        while (got.type, got.sequence) == (HEARTBEAT, 0):
            got = await self.take()
        assert (got.sequence, got.body) == (self.sequence, b""), got
        return got

    async def create(self, topic: str, partitions: int = 1, **more: str) -> Got:
        return await self.ask(CREATE_TOPIC, {"topic": topic, "partitions": str(partitions), **more})

    async def publish(self, topic: str, body: bytes, **properties: str) -> Got:
        return await self.ask(PUBLISH, {"topic": topic, "client_id": "p1", **properties}, body)

    async def subscribe(self, topic: str, client: str = "c1", **properties: str) -> Got:
        return await self.ask(SUBSCRIBE, {"topic": topic, "client_id": client, **properties})

    async def is_quiet(self, for_s: float = 0.1) -> bool:
        try:
            async with asyncio.timeout(for_s):
                return await self.reader.read(1) == b"?"
        except TimeoutError:
            return True

    async def is_closed(self) -> bool:
        """By the other side, after whatever it still had to say."""
        try:
            async with asyncio.timeout(LIMIT_S):
                await self.reader.read()
                return True
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.close()
