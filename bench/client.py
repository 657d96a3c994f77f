"""`python -m bench.client`: our Python client beside aiokafka, in one interleaved run against one broker.

Both are asked for the same: acks=all and idempotence, batches of up to 1 MiB, 5 ms of patience, 100 B and 1 KiB
messages, one partition. Both run in this process on the same kind of loop, one after the other, so that what differs is
the client. Told are messages per second of time, and per second of this process's CPU, which a busy machine cannot
blur; the best round of each counts.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

import headrace.aio
from bench.servers import Headrace, Kafka, Server

SIZES = (100, 1024)
BATCH_BYTES = 1 << 20
TAKE = 10_000  # records in one call of `take` or `getmany`
Run = Callable[[str, str, int, int], Awaitable[None]]


async def our_produce(address: str, topic: str, count: int, size: int) -> None:
    value = bytes(size)
    async with headrace.aio.connect(address) as client, client.producer(batch_bytes=BATCH_BYTES) as producer:
        put = producer.put
        for _ in range(count):
            await put(topic, value)
        await producer.flush()


async def our_consume(address: str, topic: str, count: int, size: int) -> None:
    async with headrace.aio.connect(address) as client, client.consumer(topic, start="start") as consumer:
        while count > 0:
            count -= len(await consumer.take(TAKE))


async def our_iteration(address: str, topic: str, count: int, size: int) -> None:
    async with headrace.aio.connect(address) as client, client.consumer(topic, start="start") as consumer:
        async for _ in consumer:
            count -= 1
            if not count:
                return


async def their_produce(address: str, topic: str, count: int, size: int) -> None:
    value = bytes(size)
    settings: dict[str, Any] = {"acks": "all", "enable_idempotence": True, "linger_ms": 5}
    async with AIOKafkaProducer(bootstrap_servers=address, max_batch_size=BATCH_BYTES, **settings) as producer:
        for _ in range(count):
            await producer.send(topic, value)
        await producer.flush()


async def their_consume(address: str, topic: str, count: int, size: int) -> None:
    async with AIOKafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        while count > 0:
            for records in (await consumer.getmany(timeout_ms=1000, max_records=TAKE)).values():
                count -= len(records)


async def their_iteration(address: str, topic: str, count: int, size: int) -> None:
    async with AIOKafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        async for _ in consumer:
            count -= 1
            if not count:
                return


PARTS: dict[str, tuple[Run, Run]] = {
    "produce": (our_produce, their_produce),
    "consume, lists": (our_consume, their_consume),
    "consume, one by one": (our_iteration, their_iteration),
}


def measured(run: Run, address: str, topic: str, count: int, size: int) -> tuple[float, float]:
    """Messages per second, and per CPU second."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(run(address, topic, count, size))  # type: ignore[arg-type]
    return count / (time.perf_counter() - wall), count / (time.process_time() - cpu)


async def create(address: str, *topics: str) -> None:
    async with headrace.aio.connect(address) as client:
        for topic in topics:
            await client.admin.create_topic(topic, partitions=1)


def compare(address: str, rounds: int, bytes_each: int) -> list[tuple[str, list[tuple[float, float]]]]:
    rows = []
    for size in SIZES:
        count = bytes_each // size
        best: dict[str, list[tuple[float, float]]] = {part: [(0.0, 0.0), (0.0, 0.0)] for part in PARTS}
        for number in range(rounds):
            topics = [f"client-{size}-{number}-{who}" for who in ("ours", "theirs")]
            asyncio.run(create(address, *topics))
            for part, runs in PARTS.items():
                for who, run in enumerate(runs):
                    got = measured(run, address, topics[who], count, size)
                    old = best[part][who]
                    best[part][who] = max(old[0], got[0]), max(old[1], got[1])
        rows += [(f"{part}, {size} B", best[part]) for part in PARTS]
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.client", description=__doc__)
    parser.add_argument("--server", default="headrace", choices=["headrace", "kafka"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mebibytes", type=int, default=32, help="of messages in each part of a round")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-client-") as folder:
        path = Path(folder)
        server: Server = (
            Kafka(path) if chosen.server == "kafka" else Headrace(path, Path(sys.executable).parent / "headrace")
        )
        server.prepare()
        server.start()
        try:
            rows = compare(server.address, chosen.rounds, chosen.mebibytes << 20)
        finally:
            server.stop()
    print(f"{'':26}{'headrace':>22}{'aiokafka':>22}   (messages per second / per CPU second)")
    for name, sides in rows:
        figures = "".join(f"{wall:>11,.0f} /{cpu:>9,.0f}" for wall, cpu in sides)
        print(f"{name:26}{figures}   x {sides[0][1] / sides[1][1]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
