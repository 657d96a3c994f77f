"""What a benchmark sends and where: the options as one value, the records, the pace, the topic.

Without `--topic` it makes one of its own and deletes it at the end, also when it fails or is interrupted. One that was
named is used as it is, and stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import string
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec

from headrace.cli import topics
from headrace.cli.exits import usage
from headrace.errors import HeadraceError
from headrace.records.header import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from headrace.aio import Client

OWN_TOPIC = "headrace-bench-"
POOL, POOL_BYTES = 1000, 8 << 20  # different values; more only cost memory and time to make
INDEX_BYTES = 8  # in front of a value, where it is to be recognised
LETTERS = (
    string.ascii_letters + string.digits + " ."
).encode() * 4  # one for each byte; shrinks a little, as text does
LEAST_SLEEP_S = 0.001  # a sender that is ahead by less does not sleep


class Load(msgspec.Struct, frozen=True):
    topic: str | None
    partitions: int
    records: int
    size: int
    acks: str
    compression: str
    rate: float
    linger_s: float
    batch_bytes: int
    keep: bool

    def checked(self) -> Load:
        """The same, or why not; what the client itself checks is left to it."""
        if self.records < 1 or self.size < 0 or self.rate < 0 or self.partitions < 1:
            raise usage("a benchmark needs records to send: counts and sizes are positive")
        if self.size > MAX_BATCH_BYTES:
            raise usage(f"no broker takes a record of {self.size} bytes", f"--size {MAX_BATCH_BYTES >> 20}MiB at most")
        return self


def values(size: int, seed: int = 0) -> list[bytes]:
    chance = random.Random(seed)
    count = min(POOL, max(1, POOL_BYTES // max(size, 1)))
    return [chance.randbytes(size).translate(LETTERS) for _ in range(count)]


class Pace:
    """When each record is due. Latency counts from then, so that a server that stalls is not excused by a sender that
    waited for it."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._begin = time.perf_counter()

    def due(self, index: int) -> float:
        return self._begin + index / self._rate if self._rate else time.perf_counter()

    async def wait(self, index: int) -> float:
        """Until the record is due; when that was, or now if it goes a little early."""
        due = self.due(index)
        now = time.perf_counter()
        if due - now > LEAST_SLEEP_S:
            await asyncio.sleep(due - now)
            now = time.perf_counter()
        return min(due, now)


@contextlib.asynccontextmanager
async def place(client: Client, load: Load) -> AsyncIterator[str]:
    """The topic's name, for as long as it is needed."""
    if load.topic is not None:
        await topics.one(client, load.topic)
        yield load.topic
        return
    name = f"{OWN_TOPIC}{random.SystemRandom().randrange(1 << 32):08x}"
    await client.admin.create_topic(name, partitions=load.partitions)
    try:
        yield name
    finally:
        if not load.keep:
            with contextlib.suppress(HeadraceError):  # the server may be what failed
                await asyncio.shield(client.admin.delete_topic(name))
