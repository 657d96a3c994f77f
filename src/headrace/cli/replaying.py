"""How `headrace replay` copies: the plan (a window of offsets for each partition), then records in order, counted when
they are acknowledged. Memory is bounded by what may be under way."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from headrace.cli.exits import Refusal, not_found
from headrace.cli.options import note
from headrace.cli.output import Column
from headrace.cli.parsing import Position, show_duration
from headrace.cli.progress import Advance
from headrace.cli.sending import Pace
from headrace.cli.topics import one
from headrace.client.values import Time
from headrace.errors import HeadraceError, RequestTimedOut, UnknownTopic

if TYPE_CHECKING:
    from headrace.aio import Client, Producer
    from headrace.client.values import Delivery, Record

TAKE_RECORDS = 1000
TAKE_TIMEOUT_S = 30.0
PREFETCH_BYTES = 8 << 20
MAX_UNDER_WAY = 20_000  # records that are not acknowledged yet; the producer bounds their bytes
READ_COMMITTED = "read_committed"


class Window(msgspec.Struct, frozen=True):
    start: Position
    end: Position
    partitions: list[int] | None = None
    """None: all of them."""
    fixed: dict[int, tuple[int, int]] | None = None
    """By partition, from and to: an earlier copy's own window, whatever the positions say."""


class PlanRow(msgspec.Struct, frozen=True):
    partition: int
    start: int
    end: int
    records: int  # offsets from start to end: at most so many records


class Plan(msgspec.Struct, frozen=True):
    source: str
    target: str
    keeps_partitions: bool
    rows: tuple[PlanRow, ...]
    creates: dict[str, str] | None
    """The settings of a target that is yet to be made; None: it is there."""
    partitions: int
    """Of the target."""
    replicas: int

    @property
    def records(self) -> int:
        return sum(row.records for row in self.rows)


class CopiedPartition(msgspec.Struct, frozen=True):
    partition: int
    start: int
    next: int  # where it stands: everything before it is in the target
    end: int
    records: int


class Replayed(msgspec.Struct, frozen=True):
    source: str
    target: str
    records: int
    seconds: float
    partitions: tuple[CopiedPartition, ...]


PLAN_COLUMNS = [
    Column("partition", align="right"),
    Column("start", "from", align="right"),
    Column("end", "to", align="right"),
    Column("records", "records at most", align="right"),
]


async def plan_of(client: Client, source: str, target: str, window: Window, *, by_key: bool, create: bool) -> Plan:
    read = await one(client, source)
    count, replicas = len(read.partitions), max(len(partition.replicas) for partition in read.partitions)
    creates = None
    try:
        count_there = len((await client.admin.topic(target)).partitions)
        await _warn_of_times(client, target, window)
    except UnknownTopic:
        if not create:
            raise not_found(f"there is no topic {target!r} to copy to", f"--create makes it like {source}") from None
        count_there = count
        settings = await client.admin.config("topic", source)
        creates = {one.name: one.value for one in settings if one.source == "topic" and one.value is not None}
    rows = await _rows(client, source, window, count)
    return Plan(source, target, count == count_there and not by_key, tuple(rows), creates, count_there, replicas)


async def _rows(client: Client, topic: str, window: Window, count: int) -> list[PlanRow]:
    starts = {index: at.offset for index, at in (await client.admin.offsets(topic, "start")).items()}
    ends = {index: at.offset for index, at in (await client.admin.offsets(topic, "end", READ_COMMITTED)).items()}
    wanted = sorted(window.fixed) if window.fixed else window.partitions
    if strange := sorted(set(wanted or ()) - set(starts)):
        raise not_found(f"topic {topic} has no partition {strange[0]}", f"it has {count}: 0 to {count - 1}")
    if window.fixed:
        found_from = {index: first for index, (first, _) in window.fixed.items()}
        found_to = {index: last for index, (_, last) in window.fixed.items()}
    else:
        found_from = await _offsets(client, topic, window.start, starts, ends)
        found_to = await _offsets(client, topic, window.end, starts, ends)
    rows = []
    for index in sorted(starts if wanted is None else wanted):
        first = min(max(found_from[index], starts[index]), ends[index])
        last = max(min(found_to[index], ends[index]), first)
        rows.append(PlanRow(index, first, last, last - first))
    return rows


async def _offsets(
    client: Client, topic: str, where: Position, starts: dict[int, int], ends: dict[int, int]
) -> dict[int, int]:
    if isinstance(where, Time):
        found = await client.admin.offsets(topic, where)
        return {index: at.offset if at.offset >= 0 else ends[index] for index, at in found.items()}
    if isinstance(where, str):
        return starts if where == "start" else ends
    return {index: where if where >= 0 else ends[index] + where for index in starts}


async def _warn_of_times(client: Client, target: str, window: Window) -> None:
    """Times are kept: a topic that keeps an hour forgets what is a day old as soon as it looks."""
    settings = {one.name: one.value for one in await client.admin.config("topic", target)}
    if settings.get("message.timestamp.type") == "LogAppendTime":
        note(f"Topic {target} gives records its own times (message.timestamp.type=LogAppendTime).")
        return
    kept_ms = int(settings.get("retention.ms") or -1)
    is_deleting = "delete" in (settings.get("cleanup.policy") or "delete")
    if isinstance(window.start, Time) and is_deleting and 0 <= kept_ms < time.time() * 1000 - window.start.ms:
        note(f"Topic {target} keeps records for {show_duration(kept_ms)}: the oldest of these will soon be gone again.")


class Copying:
    """How far a copy is. Records are counted when they, and all before them in their partition, are acknowledged."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.is_begun = False
        self.is_whole = False  # to the end of the plan
        self._next = {row.partition: row.start for row in plan.rows}
        self._records = dict.fromkeys(self._next, 0)
        self._under_way: dict[int, deque[tuple[int, asyncio.Future[Delivery]]]] = {i: deque() for i in self._next}
        self._left = 0
        self._began = time.monotonic()

    @property
    def records(self) -> int:
        return sum(self._records.values())

    @property
    def is_full(self) -> bool:
        return self._left >= MAX_UNDER_WAY

    def sent(self, record: Record, future: asyncio.Future[Delivery]) -> None:
        self._under_way[record.partition].append((record.offset, future))
        self._left += 1

    def count(self) -> BaseException | None:
        """Looks which have arrived; the first failure, if there is one."""
        failure: BaseException | None = None
        for partition, waiting in self._under_way.items():
            while waiting and waiting[0][1].done():
                offset, future = waiting[0]
                error = asyncio.CancelledError() if future.cancelled() else future.exception()
                if error is not None:
                    failure = failure or error
                    break
                waiting.popleft()
                self._left -= 1
                self._next[partition] = offset + 1
                self._records[partition] += 1
        return failure

    async def wait(self) -> None:
        """Until one of those under way has arrived or failed."""
        first = [waiting[0][1] for waiting in self._under_way.values() if waiting]
        if first:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)

    def finish(self) -> None:
        """Everything was read and has arrived: what is left of a window holds no record."""
        self.is_whole = True
        self._next = {row.partition: row.end for row in self.plan.rows}

    @property
    def left(self) -> str:
        """The rest of the plan, as `--resume` takes it."""
        rest = [row for row in self.plan.rows if self._next[row.partition] < row.end]
        return ",".join(f"{row.partition}={self._next[row.partition]}:{row.end}" for row in rest)

    def result(self) -> Replayed:
        parts = tuple(
            CopiedPartition(row.partition, row.start, self._next[row.partition], row.end, self._records[row.partition])
            for row in self.plan.rows
        )
        took = round(time.monotonic() - self._began, 3)
        return Replayed(self.plan.source, self.plan.target, self.records, took, parts)


async def copy(client: Client, copying: Copying, most: int | None, rate: float | None, how: dict[str, object],
               advance: Advance) -> None:  # fmt: skip
    plan = copying.plan
    if plan.creates is not None:
        await client.admin.create_topic(plan.target, plan.partitions, plan.replicas, plan.creates)
    rows = [row for row in plan.rows if row.records]
    if not rows:
        copying.finish()
        return
    pace = Pace(rate) if rate is not None else None
    copying.is_begun = True
    async with (
        client.producer(**how) as producer,
        client.consumer(
            plan.source,
            partitions=[row.partition for row in rows],
            start={(plan.source, row.partition): row.start for row in rows},
            end={(plan.source, row.partition): row.end for row in rows},
            follow=False,
            isolation=READ_COMMITTED,
            prefetch_bytes=PREFETCH_BYTES,
        ) as consumer,
    ):
        sent = 0
        while not consumer.is_done and (most is None or sent < most):
            room = TAKE_RECORDS if most is None else min(TAKE_RECORDS, most - sent)
            records = await consumer.take(max_records=room, timeout=TAKE_TIMEOUT_S)
            if not records and not consumer.is_done:
                raise RequestTimedOut(f"no records came for {TAKE_TIMEOUT_S:g} s, after {copying.records} of them")
            for record in records:
                await _send(producer, copying, record, pace, advance)
            sent += len(records)
        await _settle(producer, copying, advance)
        if consumer.is_done:
            copying.finish()


async def _send(producer: Producer, copying: Copying, record: Record, pace: Pace | None, advance: Advance) -> None:
    if pace is not None:
        await pace.wait()
    while copying.is_full:
        await copying.wait()
        _count(copying, advance)
    plan = copying.plan
    partition = record.partition if plan.keeps_partitions else None
    timestamp_ms = record.timestamp_ms if record.timestamp_ms >= 0 else None
    future = await producer.put(plan.target, record.value, record.key, record.headers, partition, timestamp_ms)
    copying.sent(record, future)


async def _settle(producer: Producer, copying: Copying, advance: Advance) -> None:
    try:
        await producer.flush()
    finally:
        _count(copying, advance)


def _count(copying: Copying, advance: Advance) -> None:
    before = copying.records
    failure = copying.count()
    advance(copying.records - before)
    if failure is None:
        return
    if isinstance(failure, HeadraceError):
        raise Refusal(f"a record could not be copied: {failure}", "the hint above goes on from there") from failure
    raise failure
