"""What a batch says of its contents: believed only as far as it holds, and opened at a bounded cost."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import cramjam
import pytest

from headrace.broker.opened import OPENED_RECORDS
from headrace.records import codec
from headrace.records import header as batches
from headrace.records.compression import ZSTD
from headrace.records.kernel import crc32c
from headrace.records.record import Record
from headrace.wire.kafka import list_offsets, produce_client
from headrace.wire.kafka.errors import Code
from tests.doors.asking import asking, create

GOOD = codec.encode([Record(b"k", b"v", (), 1000), Record(b"k", b"v", (), 1000)])
LIST_OFFSETS, BY_VERSION, MAX_TIMESTAMP = 2, 7, -3
MOST_MIB, MOST_STALL_S = 150, 0.6  # of millions of records: unfolded at the most, and not made


def sealed(batch: bytearray | bytes, **changes: int) -> bytearray:
    """With these fields in its header, and a checksum that is right."""
    changed = bytearray(batch)
    batches.HEADER.pack_into(changed, 0, *batches.read_header(batch)._replace(**changes))
    batches.CRC.pack_into(changed, batches.CRC_AT, crc32c(memoryview(changed)[batches.CRC_FROM :]))
    return changed


def bomb(count: int, *, has_key: bool) -> bytearray:
    """A few kilobytes that are millions of records."""
    record = bytes([12, 0, 0, 0, 0 if has_key else 1, 1, 0])
    batch = bytearray(GOOD[: batches.HEADER_BYTES]) + bytes(cramjam.zstd.compress(record * count, 3))
    length = len(batch) - batches.PREFIX_BYTES
    return sealed(batch, length=length, attributes=ZSTD, record_count=count, last_offset_delta=count - 1)


async def send(asker: Any, topic: str, batch: bytes | bytearray) -> Any:
    request = produce_client.encode_request(7, 13, None, None, 1, 30_000, [(topic, None, [(0, batch)])])
    answer = await asker.answer(b"".join(request))
    (produced,) = produce_client.decode_response(answer, 4, len(answer), 7).topics[0].partitions
    return produced


async def longest_stall(task: asyncio.Future[Any]) -> float:
    """Between two turns of the loop, in seconds that this process worked: what others have of the machine is no part of
    it, and what a thread does that lets nobody else run is."""
    worst, last = 0.0, time.process_time()
    while not task.done():
        await asyncio.sleep(0.005)
        now = time.process_time()
        worst, last = max(worst, now - last), now
    return worst


class Peak:
    """The most memory that this process has had since, beyond what it has now."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the most so far is what it is now
        self._before_mib = self._most_mib()

    @property
    def grown_mib(self) -> int:
        return self._most_mib() - self._before_mib

    def _most_mib(self) -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) // 1024


async def offset_at(asker: Any, topic: str, timestamp: int) -> list_offsets.FoundOffset:
    request = list_offsets.ListOffsetsRequest([(topic, [list_offsets.AskedOffset(0, -1, timestamp)])])
    answer = await asker.ask(list_offsets, LIST_OFFSETS, BY_VERSION, request)
    found: list_offsets.FoundOffset = answer.topics[0][1][0]
    return found


@pytest.mark.parametrize("config", [{"cleanup.policy": "compact"}, {"headrace.dedup.window.ms": "60000"}])
async def test_more_records_than_are_looked_at_on_the_loop_are_too_large_and_soon_refused(
    tmp_path: Path, config: dict[str, str]
) -> None:
    async with asking(tmp_path) as asker:
        await create(asker, "t", configs=config)
        assert (await send(asker, "t", GOOD)).error == 0
        large = bomb(19_000_000, has_key=True)
        peak = Peak()
        task = asyncio.ensure_future(send(asker, "t", large))
        assert await longest_stall(task) < MOST_STALL_S
        assert task.result().error == Code.MESSAGE_TOO_LARGE
        assert peak.grown_mib < MOST_MIB
        assert (await send(asker, "t", bomb(1000, has_key=True))).error == 0
        assert (await send(asker, "t", bomb(OPENED_RECORDS + 1, has_key=True))).error == Code.MESSAGE_TOO_LARGE


async def test_few_records_that_unfold_to_too_much_are_too_large_for_a_compacted_topic(tmp_path: Path) -> None:
    large = codec.encode([Record(b"k", bytes(40 << 20), (), 1000)], codec.BatchOptions(compression="zstd"))
    async with asking(tmp_path) as asker:
        await create(asker, "t", configs={"cleanup.policy": "compact"})
        await create(asker, "plain")
        assert (await send(asker, "t", large)).error == Code.MESSAGE_TOO_LARGE
        assert (await send(asker, "plain", large)).error == 0


async def test_a_record_without_a_key_is_found_among_many(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        await create(asker, "t", configs={"cleanup.policy": "compact"})
        assert (await send(asker, "t", bomb(1000, has_key=False))).error == Code.INVALID_RECORD
        unreadable = sealed(GOOD[:-1] + b"\x7f")
        assert (await send(asker, "t", unreadable)).error == Code.INVALID_RECORD  # to send it again is of no use


async def test_a_time_is_looked_up_among_millions_of_records_without_making_them(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        await create(asker, "t")
        assert (await send(asker, "t", bomb(3_000_000, has_key=False))).error == 0
        peak = Peak()
        task = asyncio.ensure_future(offset_at(asker, "t", 1000))
        assert await longest_stall(task) < MOST_STALL_S
        assert (task.result().offset, task.result().timestamp) == (0, 1000)
        assert peak.grown_mib < MOST_MIB


@pytest.mark.parametrize("storage", ["disk", "memory"])
async def test_the_largest_time_may_be_that_of_a_transactions_marker(tmp_path: Path, storage: str) -> None:
    """As Kafka has it."""
    producer = codec.BatchOptions(producer=codec.Producer(7, 0, 0), is_transactional=True)
    async with asking(tmp_path) as asker:
        topic = await create(asker, "t", configs={"headrace.storage": storage})
        partition, broker = await topic.partitions[0].opened(), asker.node.broker
        now_ms = broker.clock.now_ms()
        first = partition.append(codec.encode([Record(None, b"a", (), 1000)], producer), now_ms).base_offset
        broker.flush()
        partition.append_marker(7, 0, 0, True, now_ms)
        broker.flush()
        found = await offset_at(asker, "t", MAX_TIMESTAMP)
        assert (found.offset, found.timestamp) == (first + 1, now_ms)


@pytest.mark.parametrize(
    "changes",
    [
        {"record_count": 1},
        {"record_count": 0},
        {"record_count": -1},
        {"last_offset_delta": -1},
        {"last_offset_delta": 5},
    ],
)
async def test_a_batch_that_contradicts_itself_is_refused_for_good(tmp_path: Path, changes: dict[str, int]) -> None:
    """Its checksum is right: it came as it was sent, and would be the same the next time."""
    async with asking(tmp_path) as asker:
        await create(asker, "t")
        assert (await send(asker, "t", sealed(GOOD, **changes))).error == Code.INVALID_RECORD
        damaged = bytearray(sealed(GOOD, **changes))
        damaged[-1] ^= 1
        assert (await send(asker, "t", damaged)).error == Code.CORRUPT_MESSAGE


async def test_no_batch_at_all_is_refused_for_good(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        await create(asker, "t")
        assert (await send(asker, "t", b"")).error == Code.INVALID_RECORD


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
async def test_a_producer_does_not_say_when_its_batch_was_appended(tmp_path: Path, kind: str) -> None:
    async with asking(tmp_path) as asker:
        await create(asker, "t", configs={"message.timestamp.type": kind})
        told = sealed(GOOD, attributes=batches.LOG_APPEND_TIME, max_timestamp=123)
        assert (await send(asker, "t", told)).error == Code.INVALID_TIMESTAMP
