"""Apache Kafka answers the end of a transaction when it is decided; its marks are set a moment later, and who reads
only what is committed sees it then. A test that reads right after an end waits for the marks first."""

from __future__ import annotations

import asyncio
import time

import headrace
import headrace.aio

LIMIT_S = 40.0
LOOK_S = 0.02


async def until_marked(client: headrace.aio.Client, topic: str) -> None:
    """No transaction is open in the topic any more."""
    deadline = time.monotonic() + LIMIT_S
    while await _ends(client, topic, "read_committed") != await _ends(client, topic, "read_uncommitted"):
        assert time.monotonic() < deadline, f"a transaction stays open in {topic!r}"
        await asyncio.sleep(LOOK_S)


async def _ends(client: headrace.aio.Client, topic: str, isolation: str) -> dict[int, int]:
    found = await client.admin.offsets(topic, "end", isolation=isolation)
    return {partition: at.offset for partition, at in found.items()}


def wait_until_marked(address: str, topic: str) -> None:
    async def wait() -> None:
        async with headrace.aio.connect(address) as client:
            await until_marked(client, topic)

    asyncio.run(wait())
