"""Rows of a file to a topic, in the file's order, counted when they are acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

import msgspec

from headrace.cli import options
from headrace.cli.exchange.commas import read_csv
from headrace.cli.exchange.jsonl import read_jsonl
from headrace.cli.exchange.parquet import read_parquet
from headrace.cli.exchange.places import Format
from headrace.cli.exchange.rows import Rows
from headrace.cli.exits import Refusal, not_found, usage
from headrace.cli.progress import Advance
from headrace.cli.record_values import Sending
from headrace.errors import HeadraceError, UnknownTopic

if TYPE_CHECKING:
    from headrace.aio import Client, Producer
    from headrace.client.values import Delivery

T = TypeVar("T")


class How(msgspec.Struct, frozen=True):
    keep_partitions: bool
    keep_timestamps: bool
    create: int | None
    """Partitions of the topic, if it has to be made; None: it must be there."""
    acks: str
    compression: str


def rows_of(form: Format, file: BinaryIO, name: str) -> Rows:
    if form == "parquet":
        return read_parquet(file, name)
    return read_csv(file, name) if form == "csv" else read_jsonl(file, name)


async def import_rows(client: Client, topic: str, rows: Rows, how: How, advance: Advance) -> int:
    """How many were sent. Whoever is told that it failed is also told how far it came: that much is in the topic."""
    partitions = await _partitions(client, topic, how)
    sent = 0

    def acknowledged(delivery: asyncio.Future[Delivery]) -> None:
        nonlocal sent
        if not delivery.cancelled() and delivery.exception() is None:
            sent += 1
            advance(1)

    try:
        async with client.producer(acks=how.acks, compression=how.compression) as producer:
            while several := await in_thread(lambda: next(rows, None)):
                for row in several:
                    (await _put(producer, topic, row, how, partitions)).add_done_callback(acknowledged)
    except HeadraceError:
        await asyncio.sleep(0)  # the callbacks of the last batch
        options.note(f"{sent:,} records had been sent by then.")
        raise
    await asyncio.sleep(0)
    return sent


async def in_thread(work: Callable[[], T]) -> T:
    """Reading may wait for a pipe, and the loop must not. A daemon: Ctrl-C does not wait for it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if not future.done():
            future.set_exception(error) if error is not None else future.set_result(cast(T, result))

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = work()
        except BaseException as caught:  # noqa: BLE001 (raised again where it is awaited)
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=run, name="reading", daemon=True).start()
    return await future


async def _put(producer: Producer, topic: str, row: Sending, how: How, partitions: int) -> asyncio.Future[Delivery]:
    if how.keep_partitions and (row.partition is None or row.partition >= partitions):
        raise _no_partition(topic, row.partition, partitions)
    return await producer.put(
        topic,
        row.value,
        row.key,
        row.headers,
        partition=row.partition if how.keep_partitions else None,
        timestamp_ms=row.timestamp_ms if how.keep_timestamps else None,
    )


async def _partitions(client: Client, topic: str, how: How) -> int:
    """How many there are; the topic is made where that was asked."""
    try:
        found = await client.admin.topic(topic)
    except UnknownTopic:
        if how.create is None:
            raise not_found(f"there is no topic {topic!r}", "--create N makes it, with N partitions") from None
        found = await client.admin.create_topic(topic, partitions=how.create)
    return len(found.partitions)


def _no_partition(topic: str, partition: int | None, partitions: int) -> Refusal:
    if partition is None:
        return usage("a row names no partition", "leave out --keep-partitions: the key decides then")
    return Refusal(
        f"a row is for partition {partition}, and topic {topic} has {partitions}",
        f"`headrace topic alter {topic} --partitions {partition + 1}`, or leave out --keep-partitions",
    )
