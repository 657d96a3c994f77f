"""A disk that is full or does not come back from a sync, as clients see it.

The node is real and in this process; only its disk is ours.
"""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from headrace.log.files import OsFiles
from headrace.ports import Buffer
from headrace.wire.kafka import header, produce_client
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.produce import PartitionResult
from tests.doors.asking import Asker, asking
from tests.support import PRODUCE_VERSION, batch_of


class OurDisk(OsFiles):
    def __init__(self) -> None:
        self.is_full = False
        self.syncs = threading.Event()
        self.syncs.set()

    def pwritev(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().pwritev(handle, buffers, position)

    def datasync(self, handle: int) -> None:
        self.syncs.wait()
        super().datasync(handle)


def produce_request(topic: str, acks: int = 1, timeout_ms: int = 30_000) -> bytes:
    topics = [(topic, None, [(0, batch_of([b"x"]))])]
    return b"".join(produce_client.encode_request(PRODUCE_VERSION, 1, "x", None, acks, timeout_ms, topics))


async def produce(asker: Asker, topic: str, acks: int, timeout_ms: int = 30_000) -> PartitionResult:
    raw = await asker.answer(produce_request(topic, acks, timeout_ms))
    _, at = header.read_response_header(raw, 0, len(raw), header.PRODUCE, PRODUCE_VERSION)
    return produce_client.decode_response(raw, at, len(raw), PRODUCE_VERSION).topics[0].partitions[0]


async def make_topic(asker: Asker, topic: str) -> int:
    """By asking for it, as most clients do; the error code that comes back."""
    fields = {"topics": [{"name": topic}], "allow_auto_topic_creation": True}
    answer = await asker.ask_by_schema(header.METADATA, 4, fields)
    code: int = answer.topics[0].error_code.value
    return code


async def test_on_a_full_disk_everything_is_refused_with_an_answer_and_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    disk = OurDisk()
    async with asking(tmp_path, disk) as asker:
        assert await make_topic(asker, "before") == 0
        assert (await produce(asker, "before", acks=1)).base_offset == 0
        disk.is_full = True
        for acks in (1, -1):
            assert (await produce(asker, "before", acks)).error != 0
        assert await make_topic(asker, "during") == Code.UNKNOWN_TOPIC_OR_PARTITION
        disk.is_full = False
        assert (await produce(asker, "before", acks=-1)).base_offset == 1
        assert await make_topic(asker, "after") == 0
        assert await make_topic(asker, "during") == 0


async def test_a_sync_that_does_not_end_is_a_timeout_for_its_client_and_nobody_elses_trouble(tmp_path: Path) -> None:
    disk = OurDisk()
    async with asking(tmp_path, disk) as asker:
        await make_topic(asker, "stuck")
        await produce(asker, "stuck", acks=-1)
        disk.syncs.clear()
        try:
            begin = time.monotonic()
            late = await produce(asker, "stuck", acks=-1, timeout_ms=500)
            assert late.error == Code.REQUEST_TIMED_OUT
            assert 0.4 < time.monotonic() - begin < 4
            written = await produce(asker, "stuck", acks=1)
            assert (written.error, written.base_offset) == (0, 2)
            (connection,) = asker.node.kafka._connections
            assert not connection.waiting, "what was answered is still waited for"
        finally:
            disk.syncs.set()
        assert (await produce(asker, "stuck", acks=-1)).base_offset == 3
        await asyncio.sleep(0.1)
        assert (await produce(asker, "stuck", acks=1)).base_offset == 4, "an answer came twice"


async def test_a_stop_that_waits_for_a_sync_takes_no_new_request_meanwhile(tmp_path: Path) -> None:
    disk = OurDisk()
    async with asking(tmp_path, disk) as asker:
        await make_topic(asker, "stopping")
        await produce(asker, "stopping", acks=-1)
        address = asker.node.addresses["kafka"]
        reader, writer = await asyncio.open_connection(address.host, address.port)
        other = Asker(asker.node, reader, writer)
        assert (await produce(other, "stopping", acks=1)).base_offset == 1
        disk.syncs.clear()
        try:
            taken = asyncio.create_task(produce(asker, "stopping", acks=-1))
            await asyncio.sleep(0.2)
            stopping = asyncio.create_task(asker.node.kafka.stop())
            await asyncio.sleep(0.1)
            late = asyncio.create_task(other.answer(produce_request("stopping")))
            await asyncio.sleep(0.3)
            assert not late.done()
        finally:
            disk.syncs.set()
        assert (await taken).base_offset == 2, "what was taken is answered"
        await stopping
        assert await late == b"", "what came during the stop is closed without an answer"
        writer.close()
