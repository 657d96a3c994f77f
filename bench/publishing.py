"""What publishing costs a door, without any door: python -m bench.publishing

One process, a real log in a temporary folder, acks=1: calls of `publish`, runs, and batches that a door encoded itself.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Callable

import uvloop

from headrace.broker.broker import Broker, NewTopic
from headrace.log.files import OsFiles
from headrace.node.node import Node
from headrace.node.real import RealClock, Threads
from headrace.node.settings import Address, Settings
from headrace.records.codec import encode
from headrace.records.record import Record

RECORDS = 1000
ROUNDS = 200
VALUE = b"x" * 100


def ignore(_: object) -> None:
    """Nobody looks at the places."""


def timed(work: Callable[[], None], rounds: int = ROUNDS) -> float:
    """Microseconds of the processor that the median round takes: other loads on the machine do not count."""
    took = []
    for _ in range(rounds):
        began = time.thread_time()
        work()
        took.append(time.thread_time() - began)
    return sorted(took)[rounds // 2] * 1e6


async def measure(broker: Broker) -> None:
    publishing, now_ms = broker.publishing, broker.clock.now_ms
    opened = asyncio.Event()
    await broker.create_topics(
        [NewTopic("disk", 1), NewTopic("ids", 1, configs={"headrace.dedup.window.ms": "600000"})]
    )
    for name in ("disk", "ids"):
        publishing.publish(name, Record(value=VALUE), lambda _: opened.set())
        await opened.wait()
        opened.clear()
    memory = broker.memory_topics.get_or_create("memory")
    records = [Record(value=VALUE)] * RECORDS

    def gather(topic: str, count: int, acks: int = 1) -> Callable[[], None]:
        def work() -> None:
            for record in records[:count]:
                publishing.publish(topic, record, ignore, acks=acks)
            publishing.end_turn()

        return work

    def one_run(topic: str) -> Callable[[], None]:
        def work() -> None:
            publishing.publish_run(topic, records, ignore, acks=1)
            publishing.end_turn()

        return work

    def encoded() -> None:
        publishing.publish_batch(memory, 0, encode([Record(value=VALUE, timestamp_ms=now_ms())] * RECORDS), now_ms())
        publishing.end_turn()

    new_id, known = broker.new_message_id, [broker.new_message_id() for _ in range(RECORDS)]

    def named(is_known: bool) -> Callable[[], None]:
        def work() -> None:
            for place, record in enumerate(records):
                message_id = known[place] if is_known else new_id()
                publishing.publish("ids", record, ignore, acks=1, message_id=message_id)
            publishing.end_turn()

        return work

    rows = [
        ("one publish, a turn of its own, disk", timed(gather("disk", 1), 2000), 1),
        ("one publish, a turn of its own, memory", timed(gather("memory", 1), 2000), 1),
        (f"{RECORDS} publishes, one turn, disk", timed(gather("disk", RECORDS)), RECORDS),
        (f"{RECORDS} publishes, one turn, memory", timed(gather("memory", RECORDS)), RECORDS),
        (f"a run of {RECORDS}, disk", timed(one_run("disk")), RECORDS),
        (f"a run of {RECORDS}, memory", timed(one_run("memory")), RECORDS),
        (f"{RECORDS} publishes with new ids, disk", timed(named(False), 100), RECORDS),
        (f"{RECORDS} publishes with known ids, disk", timed(named(True), 100), RECORDS),
        (f"an encoded batch of {RECORDS}, memory (with its encoding)", timed(encoded), RECORDS),
    ]
    for name, took_us, count in rows:
        print(f"{name:60} {took_us:9.1f} µs {took_us / count:8.2f} µs a record")


async def main() -> None:
    threads = Threads(asyncio.get_running_loop())
    with tempfile.TemporaryDirectory() as folder:
        node = Node(
            Settings(f"{folder}/data", kafka=Address("127.0.0.1", 0)),
            files=OsFiles(),
            clock=RealClock(),
            background=threads,
            chance=random.Random(7),
            on_event=lambda name, fields: None,
        )
        await node.start()
        try:
            await measure(node.broker)
        finally:
            await node.stop()
            threads.close()


if __name__ == "__main__":
    uvloop.run(main())
