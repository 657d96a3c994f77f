"""The three works: produce as fast as it goes (or at a rate), consume what is there, and the latency of single records
at a steady rate. Each gives its meters; nothing of it is shown here."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.cli.bench.figures import Meter
from headrace.cli.bench.load import INDEX_BYTES, Load, Pace, place, values
from headrace.cli.progress import Advance
from headrace.errors import RequestTimedOut

if TYPE_CHECKING:
    from headrace.aio import Client, Consumer, Producer
    from headrace.client.values import Delivery

IDLE_LIMIT_S = 30.0  # a consumer that gets nothing for so long will get nothing more
TAKE_RECORDS = 5000
STEP = 20  # at full speed one record in so many is watched; batches are larger, so all of a step end together
_INDEX = struct.Struct(">q")


async def produce(client: Client, load: Load, advance: Advance) -> list[Meter]:
    async with place(client, load) as topic:
        return [await _fill(client, load, topic, advance)]


async def consume(client: Client, load: Load, advance: Advance) -> list[Meter]:
    """A topic of its own is filled first; that does not count."""
    async with place(client, load) as topic:
        if load.topic is None:
            await _fill(client, load, topic, lambda _: None)
        meter = Meter("consume", topic, 0)
        async with client.consumer(topic, start="start", follow=False) as consumer:
            meter.start()
            while meter.records < load.records:
                wanted = min(TAKE_RECORDS, load.records - meter.records)
                records = await consumer.take(max_records=wanted, timeout=IDLE_LIMIT_S)
                if not records and consumer.is_done:
                    break
                if not records:
                    raise RequestTimedOut(f"no records came for {IDLE_LIMIT_S:g} s, after {meter.records} of them")
                meter.done(len(records), sum(len(one.key or b"") + len(one.value or b"") for one in records))
                advance(len(records))
            meter.stop()
        return [meter]


async def latency(client: Client, load: Load, advance: Advance) -> list[Meter]:
    """To the acknowledgement, and to a consumer that waits at the end; both from the moment when a record is due."""
    async with place(client, load) as topic:
        due = [0.0] * load.records
        to_ack, to_consumer = (Meter(work, topic, load.records) for work in ("to the ack", "to a consumer"))
        ends = await client.admin.offsets(topic, "end")
        start = {(topic, partition): at.offset for partition, at in ends.items()}
        async with client.consumer(topic, start=start) as consumer:
            await consumer.take(max_records=1, timeout=0.1)  # connected, and waiting at the end
            to_consumer.start()
            receiving = asyncio.create_task(_receive(consumer, load, due, to_consumer))
            try:
                await _send_at_pace(client, load, topic, due, to_ack, advance)
                await receiving
            finally:
                receiving.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await receiving
        return [to_ack, to_consumer]


async def _fill(client: Client, load: Load, topic: str, advance: Advance) -> Meter:
    meter = Meter("produce", topic, load.records)
    pool = values(load.size)
    async with _producer(client, load) as producer:
        meter.start()
        pace = Pace(load.rate)
        step = 1 if load.rate else STEP
        for index in range(load.records):
            due = await pace.wait(index) if load.rate else 0.0
            future = await producer.put(topic, pool[index % len(pool)])
            if index % step == 0:
                due = due or time.perf_counter()
                future.add_done_callback(_acknowledged(meter, min(step, load.records - index), load.size, due, advance))
        await producer.flush()  # raises if one was not delivered
        await asyncio.sleep(0)  # the callbacks of the last batch
        meter.stop()
    return meter


async def _send_at_pace(
    client: Client, load: Load, topic: str, due: list[float], meter: Meter, advance: Advance
) -> None:
    pool = values(load.size - INDEX_BYTES)
    async with _producer(client, load) as producer:
        meter.start()
        pace = Pace(load.rate)
        for index in range(load.records):
            due[index] = await pace.wait(index)
            future = await producer.put(topic, _INDEX.pack(index) + pool[index % len(pool)])
            future.add_done_callback(_acknowledged(meter, 1, load.size, due[index], advance))
        await producer.flush()
        await asyncio.sleep(0)
        meter.stop()


async def _receive(consumer: Consumer, load: Load, due: list[float], meter: Meter) -> None:
    while meter.records < load.records:
        records = await consumer.take(max_records=TAKE_RECORDS, timeout=IDLE_LIMIT_S)
        if not records:
            raise RequestTimedOut(f"only {meter.records} of {load.records} records came within {IDLE_LIMIT_S:g} s")
        now = time.perf_counter()
        for record in records:
            (index,) = _INDEX.unpack_from(record.value or bytes(INDEX_BYTES))
            if 0 <= index < len(due):  # somebody else may write there too
                meter.done(1, load.size, now - due[index])
    meter.stop()


def _acknowledged(
    meter: Meter, count: int, size: int, due: float, advance: Advance
) -> Callable[[asyncio.Future[Delivery]], None]:
    def acknowledged(done: asyncio.Future[Delivery]) -> None:
        if not done.cancelled() and done.exception() is None:
            meter.done(count, count * size, time.perf_counter() - due)
            advance(count)

    return acknowledged


def _producer(client: Client, load: Load) -> Producer:
    return client.producer(
        acks=load.acks, compression=load.compression, linger=load.linger_s, batch_bytes=load.batch_bytes
    )
